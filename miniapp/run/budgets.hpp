// SPDX-License-Identifier: Apache-2.0
// How much memory a run may use, by tier: what its deck says, or what this machine has free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <miniapp/ranks/peers.hpp>

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

/// memory.device_gib of the deck, which `plan` and `deck check` need; 0 bytes where it is missing.
FitBudget deck_fit_budget(const Deck& deck);

/// Collective. memory.device_gib of the deck; where it is missing, the least that any rank finds
/// free, for both tiers together.
FitBudget run_fit_budget(const Deck& deck, int ranks_per_node, Peers& peers);

/// Throws MemoryError if not even one layer fits.
void require_a_layer(const Deck& deck, const Fit& fit);

}  // namespace shardmark
