// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <miniapp/submission/checks/losses_reader.hpp>
#include <miniapp/submission/checks/run_facts.hpp>

namespace shardmark {

std::size_t RunFacts::warmup() const {
  return std::min(rows.size(), static_cast<std::size_t>(planned.loaded.deck.run.warmup));
}

void read_facts(RunFacts& facts, const std::string& losses) {
  facts.planned = replan(facts.report);
  facts.rows = read_losses(losses);
  std::vector<bool> skipped;
  for (const LossRow& row : facts.rows) skipped.push_back(row.skipped);
  facts.runs = planned_runs(facts.planned.program, skipped);
  skipped.resize(facts.warmup());
  facts.timed_runs = planned_runs(facts.planned.program, skipped);
  for (std::size_t s = 0; s < facts.runs.size(); ++s)
    facts.timed_runs[s] = facts.runs[s] - facts.timed_runs[s];
}

}  // namespace shardmark
