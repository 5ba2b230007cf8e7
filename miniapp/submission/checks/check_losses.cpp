// SPDX-License-Identifier: Apache-2.0
#include <miniapp/measure/timings.hpp>
#include <miniapp/submission/checks/checks.hpp>

namespace shardmark {
namespace {

// Part of the steps' own time that may be missing in the timed span, whose barriers lie between
// steps.
constexpr double span_slack = 0.05;

void check_step_times(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  std::vector<double> timed;
  double sum = 0;
  for (const LossRow& row : facts.timed()) {
    timed.push_back(row.seconds);
    sum += row.seconds;
  }
  findings.compare_number("p50 of the steps", report.number("/step_seconds/p50"),
                          percentile(timed, 0.5));
  findings.compare_number("p99 of the steps", report.number("/step_seconds/p99"),
                          percentile(timed, 0.99));
  if (report.number("/step_seconds/timed_total") < (1 - span_slack) * sum)
    findings.refuse(fmt::format("timed_total is {} s, but the timed steps of losses.csv took {} s",
                                report.number("/step_seconds/timed_total"), sum));
}

}  // namespace

void check_losses(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const RunSpec& run = facts.planned.loaded.deck.run;
  const auto& rows = facts.rows;
  if (report.has("/checkpoints/resumed_from"))
    return findings.refuse(
        "the run resumed from a checkpoint: hand in a run that was not interrupted");
  if (static_cast<std::int64_t>(rows.size()) != run.warmup + run.steps)
    findings.refuse(fmt::format("losses.csv has {} steps, the deck asks for {}", rows.size(),
                                run.warmup + run.steps));
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (rows[i].step != rows[i - 1].step + 1)
      return findings.refuse("losses.csv: steps are missing");
  if (rows.empty()) return;
  if (report.has("/loss/first")) {
    findings.compare_number("first loss", report.number("/loss/first"), rows.front().loss);
    findings.compare_number("last loss", report.number("/loss/last"), rows.back().loss);
  }
  check_step_times(facts, findings);
}

}  // namespace shardmark
