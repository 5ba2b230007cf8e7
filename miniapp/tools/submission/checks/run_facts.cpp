// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include <miniapp/tools/submission/checks/run_facts.hpp>
#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

// Kokkos' names of its execution spaces on a host.
bool RunFacts::on_host() const {
  const std::string space = report.text("/versions/execution_space");
  return space == "Serial" || space == "OpenMP" || space == "Threads" || space == "HPX";
}

std::size_t RunFacts::warmup() const {
  return std::min(rows.size(), static_cast<std::size_t>(planned.loaded.deck.run.warmup));
}

namespace {

// A plan without a segment for it never skips an update.
void require_possible_skips(const Program& program, const std::vector<LossRow>& rows) {
  if (std::ranges::any_of(program.steps, [](const Step& step) { return step.skip >= 0; })) return;
  for (const LossRow& row : rows)
    if (row.skipped)
      throw ReportError(fmt::format(
          "losses.csv: step {} is skipped, but nothing can overflow in this plan", row.step));
}

}  // namespace

ProofResult reported_proof(const ReportReader& report) {
  ProofResult proof;
  proof.timed_steps = report.integer("/proof/timed_steps");
  proof.proved_steps = report.integer("/proof/proved_steps");
  proof.period = report.integer("/proof/period");
  proof.collectives = report.integer("/proof/collectives");
  proof.cost = report.number("/proof/cost");
  const std::string seed = report.text("/proof/seed");
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), proof.seed, 16);
  if (error != std::errc{} || end != seed.data() + seed.size())
    throw ReportError("report.json: /proof/seed is no hexadecimal number");
  return proof;
}

void read_facts(RunFacts& facts, const std::string& losses) {
  facts.planned = replan(facts.report);
  facts.rows = read_losses(losses);
  require_possible_skips(facts.planned.program, facts.rows);
  std::vector<bool> skipped;
  for (const LossRow& row : facts.rows) skipped.push_back(row.skipped);
  facts.runs = planned_runs(facts.planned.program, skipped);
  skipped.resize(facts.warmup());
  facts.timed_runs = planned_runs(facts.planned.program, skipped);
  for (std::size_t s = 0; s < facts.runs.size(); ++s)
    facts.timed_runs[s] = facts.runs[s] - facts.timed_runs[s];
}

}  // namespace shardmark
