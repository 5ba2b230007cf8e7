// SPDX-License-Identifier: Apache-2.0
// What a run starts from besides its deck: budgets, and what the plan depends on.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <comm/mpi/node.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <miniapp/execute/disk_lane.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// A rank's budgets that the deck gives; empty where it gives none. The host's is the node's, and
/// its ranks share it.
Budgets deck_budgets(const Deck& deck, int ranks_per_node);

struct RunBudgets {
  Budgets bytes;
  std::array<std::string, tier_count> source;
  std::optional<std::int64_t> shared;  // where the deck gives none: what both tiers have together
};
/// The deck's budgets, or what this machine has free, divided by the ranks of the node. On a
/// CPU-only build both tiers are host memory: each gets what the other's predicted peak leaves.
/// Throws DeckError where states go to files and their folder cannot be used.
RunBudgets run_budgets(const Deck& deck, const std::array<std::int64_t, tier_count>& needed,
                       int ranks_per_node);

/// Where states in files lie, and how they are moved.
DiskOptions disk_options(const Deck& deck);

/// What `model.fit` fills where the deck gives memory.device_gib; `plan` and `deck check` need it.
FitBudget deck_fit_budget(const Deck& deck);
/// Collective. The same, or the least that any rank finds free, for both tiers together.
FitBudget run_fit_budget(const Deck& deck, int ranks_per_node, Peers& peers);

/// Throws MemoryError where not even one layer fits.
void require_a_layer(const Deck& deck, const Fit& fit);

/// What of this machine and deck the plan depends on.
Profile run_profile(const Deck& deck, const Node& node, int world);

}  // namespace shardmark
