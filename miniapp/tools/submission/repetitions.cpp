// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <miniapp/tools/submission/read/report_reader.hpp>
#include <miniapp/tools/submission/repetitions.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::json;

// What repetitions have in common, and what says whether they are repetitions at all.
struct Facts {
  RunMark mark;
  std::string name;
  std::int64_t world = 0;
  RunTimes times;
  std::set<std::string> hosts;
  Json software, binaries, processors, threads, per_node, backend;
};

std::optional<Facts> facts_of(const SubmittedRun& run) try {
  const ReportReader report(run.report);
  Facts facts;
  facts.mark = run_mark(run);
  facts.name = report.text("/name");
  facts.world = report.integer("/world");
  facts.times = run_times(report);
  std::set<std::string> processors;
  std::set<std::int64_t> threads;
  for (const ReportReader& rank : report.list("/ranks")) {
    facts.hosts.insert(rank.text("/host"));
    processors.insert(rank.text("/processor"));
    threads.insert(rank.integer("/matmul_threads"));
  }
  facts.processors = processors;
  facts.threads = threads;
  facts.software = report.at("/versions");
  facts.binaries = report.at("/binaries");
  facts.per_node = report.at("/profile/ranks_per_node");
  facts.backend = report.has("/deck/comm/backend") ? report.at("/deck/comm/backend") : Json("auto");
  return facts;
} catch (const std::runtime_error&) {
  return std::nullopt;
} catch (const Json::exception&) {
  return std::nullopt;
}

// Whole seconds are printed, so that a run may begin in the second in which another one ended.
bool overlap(const RunTimes& a, const RunTimes& b) {
  return a.started_s < b.ended_s && b.started_s < a.ended_s;
}

std::string shown(const Json& json) {
  return printable(json.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// The first key whose value differs, with both values; else the whole.
std::string difference(const Json& have, const Json& want) {
  if (have.is_object() && want.is_object())
    for (const auto& item : want.items())
      if (const Json value = have.value(item.key(), Json()); value != item.value())
        return fmt::format("{} {} instead of {}", item.key(), shown(value), shown(item.value()));
  return fmt::format("{} instead of {}", shown(have), shown(want));
}

void compare_with(const Facts& run, const Facts& other, const std::string& folder,
                  std::vector<std::string>& wrong) {
  if (same_run(run.mark, other.mark)) {
    wrong.push_back("this is the same run as " + folder);
    return;
  }
  std::vector<std::string> shared;
  std::set_intersection(run.hosts.begin(), run.hosts.end(), other.hosts.begin(), other.hosts.end(),
                        std::back_inserter(shared));
  if (!shared.empty() && overlap(run.times, other.times))
    wrong.push_back(fmt::format("it ran from {} to {}, at the same time as {} on the same host {}",
                                run.times.started, run.times.ended, folder, shared.front()));
  if (run.name != other.name || run.world != other.world) return;
  const auto compare = [&](const char* what, const Json& have, const Json& want) {
    if (have != want)
      wrong.push_back(
          fmt::format("{} differs from that of {}: {}; repetitions are runs of one "
                      "program on one machine",
                      what, folder, difference(have, want)));
  };
  compare("the software", run.software, other.software);
  compare("the program", run.binaries, other.binaries);
  compare("the processor", run.processors, other.processors);
  compare("the number of threads", run.threads, other.threads);
  compare("the number of ranks per node", run.per_node, other.per_node);
  compare("comm.backend", run.backend, other.backend);
  compare("the number of nodes", run.hosts.size(), other.hosts.size());
}

// `submit` fills in processor and software, so other ones were changed afterwards.
void compare_with_form(const Facts& run, const Json& form, std::vector<std::string>& wrong) {
  const Json processor = form.value("processor", Json());
  if (std::find(run.processors.begin(), run.processors.end(), processor) == run.processors.end())
    wrong.push_back(fmt::format("the form names the processor {}, the report {}", shown(processor),
                                shown(run.processors)));
  if (const Json software = form.value("software", Json::object()); software != run.software)
    wrong.push_back(fmt::format("the form names other software than the report: {}",
                                difference(software, run.software)));
  const Json nodes = form.value("nodes", Json(""));
  if (!nodes.is_string()) return;
  const std::string text = nodes.get<std::string>();
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc{} && end == text.data() + text.size() && count != run.hosts.size())
    wrong.push_back(fmt::format("the form names {} nodes, the report has ranks on {}", count,
                                run.hosts.size()));
}

// The form has the ranks of the first run.
void compare_ranks_with_form(const Facts& first, const Json& form,
                             std::vector<std::string>& wrong) {
  if (const Json ranks = form.value("ranks", Json()); ranks != first.world)
    wrong.push_back(
        fmt::format("the form names {} ranks, the report {}", shown(ranks), first.world));
}

// Steps of different runs are never as long to the nanosecond, but for a chance of some 1e-5 each.
bool same_times(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr std::size_t chance = 2;
  const std::size_t both = std::min(a.size(), b.size());
  std::size_t equal = 0;
  for (std::size_t i = 0; i < both; ++i) equal += a[i] == b[i] ? 1 : 0;
  return both > 0 && equal > std::min(chance, both - 1);
}

}  // namespace

RunMark run_mark(const SubmittedRun& run) {
  RunMark mark;
  const Json::json_pointer id("/run/id");
  if (run.report.contains(id) && run.report.at(id).is_string()) mark.id = run.report.at(id);
  const Json::json_pointer seed("/proof/seed");
  if (run.report.contains(seed) && run.report.at(seed).is_string())
    mark.proof = run.report.at(seed);
  try {
    for (const LossRow& row : read_losses(run.losses)) mark.times.push_back(row.seconds);
  } catch (const ReportError&) {
    mark.times.clear();
  }
  return mark;
}

bool same_run(const RunMark& a, const RunMark& b) {
  const auto same = [](const std::string& one, const std::string& other) {
    return !one.empty() && one == other;
  };
  return same(a.id, b.id) || same(a.proof, b.proof) || same_times(a.times, b.times);
}

std::vector<std::vector<std::string>> compare_runs(const Submission& submission) {
  std::vector<std::vector<std::string>> wrong(submission.runs.size());
  std::vector<std::optional<Facts>> facts;
  for (const SubmittedRun& run : submission.runs) facts.push_back(facts_of(run));
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i]) continue;
    for (std::size_t before = 0; before < i; ++before)
      if (facts[before])
        compare_with(*facts[i], *facts[before], submission.runs[before].folder, wrong[i]);
    compare_with_form(*facts[i], submission.form, wrong[i]);
    if (i == 0) compare_ranks_with_form(*facts[i], submission.form, wrong[i]);
  }
  return wrong;
}

}  // namespace shardmark
