// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/memory/budget.hpp>
#include <core/memory/device_memory.hpp>
#include <miniapp/run/budgets.hpp>
#include <miniapp/run/fit_budget.hpp>

namespace shardmark {

FitBudget deck_fit_budget(const Deck& deck) {
  const auto device = deck_budgets(deck, 1)[Tier::device];
  return {device.value_or(0), false, "memory.device_gib of the deck"};
}

FitBudget run_fit_budget(const Deck& deck, int ranks_per_node, Peers& peers) {
  FitBudget budget = deck_fit_budget(deck);
  FoundMemory found;
  peers.agree([&] {
    const auto device = find_device_memory(ranks_per_node);
    found = device ? *device : find_memory(ranks_per_node);
  });
  const auto least = peers.gather(found.bytes);
  if (budget.bytes > 0) return budget;
  return {*std::min_element(least.begin(), least.end()), true, found.source};
}

void require_a_layer(const Deck& deck, const Fit& fit) {
  if (fit.layers > 0) return;
  throw MemoryError(fmt::format(
      "{}: model.fit = {}: it does not fit in memory: {}. What would help: a larger model.fit or "
      "memory.device_gib, a smaller model.hidden, sequence or train_micro_batch_size_per_gpu, a "
      "higher ZeRO stage or smaller buckets of it",
      deck.path, fit.part, describe(fit)));
}

}  // namespace shardmark
