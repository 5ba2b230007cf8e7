// SPDX-License-Identifier: Apache-2.0
// How fast rank 0 computed, by the plan's work and the report's times: no faster than any machine
// can, and no faster than the peak of the machine file that the run was given.
#include <algorithm>

#include <core/plan/work/step_work.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/checks/limits.hpp>

namespace shardmark {

void check_speed(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const Deck& deck = facts.planned.loaded.deck;
  if (facts.timed().empty() || deck.run.compute == Compute::none) return;
  const Limits limits = limits_of(facts);
  const auto work = steady_work(facts.planned.program, {facts.on_host()});
  double flops = 0;
  for (const PhaseWork& phase : work) flops += phase.flops;
  // A skipped step computes no update, but the same products in forward and backward; those of Muon
  // are in the update.
  std::size_t updates = 0;
  for (const LossRow& row : facts.timed()) updates += row.skipped ? 0 : 1;
  const double least_flops = flops - work[Phase::step].flops +
                             work[Phase::step].flops * static_cast<double>(updates) /
                                 static_cast<double>(facts.timed().size());
  const double products_s = report.number("/seconds_per_step/matmul");
  if (least_flops > 0)
    findings.at_most({"the matrix products, in TFLOP/s,", least_flops / products_s * 1e-12},
                     {"what any machine can do", limits.tflop_per_s});
  if (deck.run.compute != Compute::train || updates < facts.timed().size()) return;
  for (const auto& [phase, name] :
       {std::pair{Phase::forward, "forward"}, std::pair{Phase::backward, "backward"},
        std::pair{Phase::step, "optimizer"}}) {
    const double seconds = report.number(fmt::format("/seconds_per_step/{}", name));
    if (work[phase].streamed_bytes > 0 && facts.on_host())
      findings.at_most({fmt::format("the memory traffic of {}, in GB/s,", name),
                        work[phase].streamed_bytes / seconds * 1e-9},
                       {"what any machine can do", limits.memory_gb_per_s});
  }
}

namespace {

void check_storage(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  findings.compare_number(report.text("/fom/name"), report.number("/fom/value"),
                          mean_gib_per_s(report.integer("/checkpoints/benchmark/state_bytes"),
                                         report.numbers("/checkpoints/benchmark/write_s")));
}

}  // namespace

void check_figure_of_merit(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  if (report.text("/fom/name") != "tokens_per_s") return check_storage(facts, findings);
  const auto timed = facts.timed();
  const auto updates =
      std::ranges::count_if(timed, [](const LossRow& row) { return !row.skipped; });
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
