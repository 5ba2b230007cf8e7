// SPDX-License-Identifier: Apache-2.0
// How much memory a run may use, by tier: what its deck says, or what this machine has free.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/interpret/footprint.hpp>

namespace shardmark {

/// The budgets of one rank that the deck gives, in bytes; empty where it gives none. The ranks of a
/// node share the budgets of the host and of the disk.
Budgets deck_budgets(const Deck& deck, int ranks_per_node);

/// The budgets of one rank in a run, in bytes.
struct RunBudgets {
  Budgets bytes;
  EnumArray<Tier, std::string> source;  // for the report: who set the budget
  std::optional<std::int64_t> shared;  // of device and host together, where the deck limits neither
};

/// The deck's budgets, or what this machine has free, divided by the ranks of the node. On a
/// CPU-only build both tiers are host memory, so each may use what the other one, by the bytes
/// `needed` of the plan, leaves. Local. Throws DeckError if states go to files and their folder
/// cannot be used.
RunBudgets run_budgets(const Deck& deck, const EnumArray<Tier, std::int64_t>& needed,
                       int ranks_per_node);

}  // namespace shardmark
