// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/loss_scale.hpp>
#include <core/plan/deck/lr_schedule.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

// Learning rate and loss scale follow from the deck and from which steps were skipped.
void check_step_values(const RunFacts& facts, Findings& findings) {
  const Deck& deck = facts.planned.loaded.deck;
  const Program& program = facts.planned.program;
  LossScaler scaler(deck.zero.precision.loss_scale, loss_scale_rule(program.stage));
  std::int64_t updates = 0;
  for (const LossRow& row : facts.rows) {
    const auto of = [&](const char* what) { return fmt::format("{} of step {}", what, row.step); };
    findings.compare_number(of("learning rate"), row.lr,
                            lr_at(deck.zero.scheduler, deck.zero.optimizer.lr, updates));
    findings.compare_number(of("loss scale"), row.loss_scale, scaler.scale());
    scaler.update(row.skipped);
    updates += row.skipped ? 0 : 1;
  }
}

}  // namespace

void check_losses(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const RunSpec& run = facts.planned.loaded.deck.run;
  const auto& rows = facts.rows;
  if (report.has("/checkpoints/resumed_from"))
    return findings.refuse(
        "the run resumed from a checkpoint: hand in a run that was not interrupted");
  const auto steps = std::ssize(rows);
  const std::int64_t wanted = run.warmup + run.steps;
  if (facts.was_stopped() ? steps >= wanted : steps != wanted)
    findings.refuse(fmt::format("losses.csv has {} steps, the deck asks for {}", steps, wanted));
  if (rows.empty()) return;
  if (rows.front().step != 0)
    return findings.refuse(
        fmt::format("losses.csv: the first step is {} instead of 0", rows.front().step));
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (rows[i].step != rows[i - 1].step + 1)
      return findings.refuse("losses.csv: steps are missing");
  if (report.has("/loss/first")) {
    findings.compare_number("first loss", report.number("/loss/first"), rows.front().loss);
    findings.compare_number("last loss", report.number("/loss/last"), rows.back().loss);
  }
  check_step_values(facts, findings);
}

}  // namespace shardmark
