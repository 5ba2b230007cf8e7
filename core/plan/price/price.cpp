// SPDX-License-Identifier: Apache-2.0
// Replays the ranks of a price side by side, as far as each can get without the others.
#include <core/error.hpp>
#include <core/plan/price/replay.hpp>

namespace shardmark {

PricedStep price(const Program& program, const Machine& machine, const PriceOptions& options) {
  return price(std::vector{&program}, machine, options).front();
}

std::vector<PricedStep> price(const std::vector<const Program*>& ranks, const Machine& machine,
                              const PriceOptions& options) {
  Arrivals arrivals(ranks.size());
  std::vector<Replay> replays;
  replays.reserve(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    replays.emplace_back(*ranks[r], machine, options, r, arrivals);
  for (bool complete = false; !complete;) {
    bool further = false;
    complete = true;
    for (Replay& replay : replays) {
      further = replay.advance() || further;
      complete = complete && replay.complete();
    }
    if (!complete && !further)
      throw PlanError("price: the collectives of the ranks do not agree: one rank waits for ever");
  }
  std::vector<PricedStep> steps;
  for (const Replay& replay : replays) steps.push_back(replay.result());
  return steps;
}

}  // namespace shardmark
