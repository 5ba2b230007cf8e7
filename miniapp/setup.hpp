// SPDX-License-Identifier: Apache-2.0
// What a run starts from besides its deck: budgets, and what machine and software this is.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include <comm/node.hpp>
#include <core/plan/deck.hpp>
#include <core/plan/footprint.hpp>
#include <miniapp/peers.hpp>
#include <miniapp/result.hpp>

namespace shardmark {

/// The budgets that the deck gives; empty where it gives none.
Budgets deck_budgets(const Deck& deck);

struct RunBudgets {
  Budgets bytes;
  std::array<std::string, tier_count> source;
};
/// The deck's budgets, or what this machine has free, divided by the ranks of the node. On a
/// CPU-only build both tiers are host memory: each gets what the other's predicted peak leaves.
RunBudgets run_budgets(const Deck& deck, const std::array<std::int64_t, tier_count>& needed,
                       int ranks_per_node);

/// Versions of ShardMark and of the libraries that this binary runs with.
std::map<std::string, std::string> library_versions();

/// What of this machine and deck the plan depends on.
Profile run_profile(const Deck& deck, const Node& node, int world);

/// Collective. Where every rank runs.
std::vector<RankInfo> rank_infos(const Node& node, Peers& peers);

/// What about the placement of ranks and threads makes times worse than they need be.
std::vector<std::string> placement_warnings(const Node& node);

}  // namespace shardmark
