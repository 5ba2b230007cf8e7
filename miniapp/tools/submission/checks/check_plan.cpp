// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/node_volume.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/printable.hpp>
#include <io/files/hash.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {

namespace {

void compare_json(std::string_view what, const nlohmann::json& reported,
                  const nlohmann::json& recomputed, Findings& findings) {
  if (reported != recomputed) findings.compare(what, reported.dump(), recomputed.dump());
}

void check_between_nodes(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const auto volume =
      volume_between_nodes(facts.planned.program, facts.planned.loaded.deck,
                           static_cast<int>(report.integer("/profile/ranks_per_node")));
  const nlohmann::json want = volume ? nlohmann::json(print_json(*volume)) : nlohmann::json();
  const nlohmann::json have =
      report.has("/volume_between_nodes") ? report.at("/volume_between_nodes") : nlohmann::json();
  compare_json("volume_between_nodes", have, want, findings);
}

// A model that follows memory has as many layers as the budget holds, no fewer.
void check_fit(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  if (!report.has("/deck/model/fit")) return;
  Deck deck = facts.planned.loaded.deck;
  deck.model.fit = report.number("/deck/model/fit");
  FitBudget budget;
  budget.bytes = report.integer("/fit/budget_bytes");
  budget.source = report.text("/fit/budget_source");
  // A budget that was found in the system is that of device and host together.
  budget.both_tiers = !deck.memory.budget_gib[Tier::device];
  const Program& p = facts.planned.program;
  const Fit fit = fit_layers(deck, p.batch, p.world, facts.planned.profile, budget);
  compare_json("fit", report.at("/fit"), print_json(fit), findings);
}

// What the report says that learned routing added to a collective.
Traffic routed_traffic(const ReportReader& report, const std::string& name) {
  const std::string at = "/collectives/" + name + "/routed";
  if (!report.has(at)) return {};
  return {0, report.integer(at + "/elems"), report.integer(at + "/bytes")};
}

void check_routed(const std::string& name, const Traffic& routed, const RoutedRange& range,
                  Findings& findings) {
  findings.at_most({"elements that routing added to " + name, static_cast<double>(routed.elems)},
                   {"what the plan has room for", static_cast<double>(range.most)});
  findings.at_most(
      {"elements that routing took from " + name, -static_cast<double>(routed.elems)},
      {"what the plan has beyond the rows at home", -static_cast<double>(range.fewest)});
}

// The peaks of each category as the plan has them. A strict run has measured them, and its check
// `memory` compares them; of a pooled one, only files are allocated by category.
void check_categories(const RunFacts& facts, Tier t, const std::string& at,
                      const TierFootprint& planned, Findings& findings) {
  const nlohmann::json peaks = category_json(planned.category_peaks);
  const auto compare = [&](const char* name, const nlohmann::json& want) {
    compare_json(at.substr(1) + name, facts.report.at(at + name), want, findings);
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
  findings.compare(fmt::format("the event of the peak of {} memory", to_string(t)),
                   report.text(at + "at"),
                   describe_event(facts.planned.program, planned.segment, planned.event));
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

void check_plan(const RunFacts& facts, const std::string& plan, Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& p = facts.planned.program;
  findings.compare("plan_hash", report.text("/plan_hash"), hash_hex(facts.planned.text));
  if (plan != facts.planned.text) findings.refuse("plan.txt is not the plan of the deck");
  findings.compare<std::int64_t>("stage", report.integer("/stage"), p.stage);
  findings.compare("schedule", report.text("/schedule"), std::string(to_string(p.schedule)));
  findings.compare("reductions", report.text("/reductions"), std::string(to_string(p.reductions)));
  findings.compare("parameters", report.integer("/parameters"), p.model.parameters);
  findings.compare("batch", report.integer("/batch/train_batch_size"), p.batch.global);
  findings.compare("micro-batch", report.integer("/batch/train_micro_batch_size_per_gpu"),
                   p.batch.micro);
  findings.compare("accumulation", report.integer("/batch/gradient_accumulation_steps"),
                   p.batch.accumulation);
  findings.compare("padded elements", report.integer("/partition/padded"), p.partition.padded);
  findings.compare("elements per rank", report.integer("/partition/per_rank"),
                   p.partition.per_rank);
  findings.compare_number("volume_per_parameter", report.number("/volume_per_parameter"),
                          volume_per_parameter(p, steady_volume(p)));
  check_between_nodes(facts, findings);
  check_fit(facts, findings);
}

void check_collectives(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& program = facts.planned.program;
  std::set<std::string> reported;
  for (const auto& item : report.at("/collectives").items()) reported.insert(item.key());
  for (std::size_t g = 0; g < program.groups.size(); ++g)
    for (const auto& [op, traffic] : volume_of_runs(program, facts.runs, static_cast<int>(g))) {
      const std::string name = collective_name(program, {static_cast<int>(g), op});
      reported.erase(name);
      const Traffic routed = routed_traffic(report, name);
      for (const char* side : {"predicted", "measured"}) {
        const std::string at = "/collectives/" + name + "/" + side;
        const bool measured = side == std::string_view("measured");
        const Traffic added = measured ? routed : Traffic{};
        findings.compare(fmt::format("{} calls of {}", side, name), report.integer(at + "/calls"),
                         traffic.calls);
        findings.compare(fmt::format("{} elements of {}", side, name),
                         report.integer(at + "/elems"), traffic.elems + added.elems);
        findings.compare(fmt::format("{} bytes of {}", side, name), report.integer(at + "/bytes"),
                         traffic.bytes + added.bytes);
      }
      const bool exchange = static_cast<int>(g) == program.expert_group && op == Op::all_to_all;
      check_routed(name, routed, exchange ? routed_range(program, facts.runs) : RoutedRange{},
                   findings);
    }
  for (const std::string& name : reported)
    findings.refuse(fmt::format("collectives: the plan has no {}", printable(name)));
}

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
