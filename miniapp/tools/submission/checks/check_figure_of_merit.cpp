// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

void check_storage(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  std::vector<double> seconds;
  for (const nlohmann::json& s : report.at("/checkpoints/benchmark/write_s"))
    seconds.push_back(s.is_number() ? s.get<double>() : 0);
  findings.compare_number(
      report.text("/fom/name"), report.number("/fom/value"),
      mean_gib_per_s(report.integer("/checkpoints/benchmark/state_bytes"), seconds));
}

}  // namespace

void check_figure_of_merit(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  if (report.text("/fom/name") != "tokens_per_s") return check_storage(facts, findings);
  const auto timed = facts.timed();
  const auto updates =
      std::count_if(timed.begin(), timed.end(), [](const LossRow& row) { return !row.skipped; });
  const double tokens = static_cast<double>(
      facts.planned.program.batch.global *
      std::max<std::int64_t>(1, facts.planned.loaded.deck.model.sequence) * updates);
  const double rate = tokens / report.number("/step_seconds/timed_total");
  findings.compare_number("tokens_per_s", report.number("/fom/value"), rate);
  if (report.has("/parameter_tokens_per_s"))  // programs before it had none
    findings.compare_number("parameter_tokens_per_s", report.number("/parameter_tokens_per_s"),
                            rate * static_cast<double>(facts.planned.program.model.parameters));
}

}  // namespace shardmark
