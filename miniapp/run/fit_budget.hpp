// SPDX-License-Identifier: Apache-2.0
// The memory that `model.fit` fills with layers.
#pragma once

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/deck/deck.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// memory.device_gib of the deck, which `plan` and `deck check` need; 0 bytes where it is missing.
FitBudget deck_fit_budget(const Deck& deck);

/// Collective. memory.device_gib of the deck; where it is missing, the least that any rank finds
/// free, for both tiers together.
FitBudget run_fit_budget(const Deck& deck, int ranks_per_node, Peers& peers);

/// Throws MemoryError if not even one layer fits.
void require_a_layer(const Deck& deck, const Fit& fit);

}  // namespace shardmark
