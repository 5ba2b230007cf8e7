// SPDX-License-Identifier: Apache-2.0
#include <core/plan/interpret/footprint.hpp>
#include <miniapp/measure/allowance.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

// The peaks of each category as the plan has them. A strict run has measured them, and its check
// `memory` compares them; of a pooled one, only files are allocated by category.
void check_categories(const RunFacts& facts, Tier t, const std::string& at,
                      const TierFootprint& planned, Findings& findings) {
  nlohmann::json peaks = nlohmann::json::object();
  for (const Category c : all_values<Category>)
    if (planned.category_peaks[c] > 0) peaks[std::string(to_string(c))] = planned.category_peaks[c];
  const auto compare = [&](const char* name, const nlohmann::json& want) {
    const nlohmann::json& have = facts.report.at(at + name);
    if (have != want) findings.compare(at.substr(1) + name, have.dump(), want.dump());
  };
  compare("predicted_by_category", peaks);
  if (facts.planned.program.memory_mode == MemoryMode::strict)
    compare("measured_by_category", peaks);
  else if (t != Tier::nvme)
    compare("measured_by_category", nlohmann::json::object());
}

void check_tier(const RunFacts& facts, Tier t, std::int64_t peak, const TierFootprint& planned,
                Findings& findings) {
  const ReportReader& report = facts.report;
  const std::string at = fmt::format("/memory/{}/", to_string(t));
  for (const char* side : {"predicted_peak", "measured_peak"})
    findings.compare(fmt::format("{} of {} memory", side, to_string(t)), report.integer(at + side),
                     peak);
  findings.compare(fmt::format("live_peak of {} memory", to_string(t)),
                   report.integer(at + "live_peak"), planned.peak_bytes);
  findings.compare(fmt::format("pinned peak of {} memory", to_string(t)),
                   report.integer(at + "predicted_pinned_peak"), planned.pinned_peak_bytes);
  check_categories(facts, t, at, planned, findings);
  // A run that needs more than its budget is refused before it begins.
  if (const std::int64_t budget = report.integer(at + "budget"); budget > 0)
    findings.at_most({fmt::format("{} memory, in bytes,", to_string(t)), static_cast<double>(peak)},
                     {"the budget", static_cast<double>(budget)});
}

// What the process holds beyond its start, the ledger's peak and the copy for the replay is excess.
// The start contains pages of files, which do not count, so that the excess may be larger.
void check_process(const RunFacts& facts, const EnumArray<Tier, std::int64_t>& peaks,
                   Findings& findings) {
  const ReportReader& report = facts.report;
  const auto of = [&](const char* name) {
    return report.integer(fmt::format("/memory/system/{}", name));
  };
  if (of("excess") > of("allowance"))
    findings.refuse("memory of the system: the excess is larger than the allowance");
  const Deck& deck = facts.planned.loaded.deck;
  const bool on_device = report.has("/memory/system/device");
  findings.compare("the allowance of the system's memory", of("allowance"),
                   allowance_bytes(deck, peaks[Tier::host] + peaks[Tier::device], on_device));
  if (deck.congestion.given || deck.perturb.active())
    return;  // their buffers are not in the report
  std::int64_t known = of("rss_start") + of("replay_copy") + of("excess") + peaks[Tier::host];
  known += on_device ? of("libraries") : peaks[Tier::device];
  findings.at_most({"the resident memory, in bytes,", static_cast<double>(of("rss_peak"))},
                   {"start, ledger, replay and excess together", static_cast<double>(known)});
}

}  // namespace

void check_memory(const RunFacts& facts, Findings& findings) {
  const Program& program = facts.planned.program;
  const auto allocated = allocated_bytes(program);
  const Footprint live = footprint(program, segments_of_runs(facts.runs));
  const bool pooled = program.memory_mode == MemoryMode::pooled;
  EnumArray<Tier, std::int64_t> peaks{};
  for (const Tier t : all_values<Tier>) {
    peaks[t] = pooled ? allocated[t] : live.tiers[t].peak_bytes;
    if (t != Tier::nvme || peaks[t] > 0) check_tier(facts, t, peaks[t], live.tiers[t], findings);
  }
  check_process(facts, peaks, findings);
}

}  // namespace shardmark
