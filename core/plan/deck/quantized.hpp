// SPDX-License-Identifier: Apache-2.0
// What a deck says of the parts of ZeRO++ that quantize, and of nodes.
#pragma once

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Whether parameters are gathered as int8 if there are several ranks.
inline bool sends_int8(const Deck& deck) {
  return deck.zero.knobs.quantized_weights && deck.zero.stage == 3 &&
         traits(deck.run.schedule).follows_deepspeed;
}

/// Whether gradients are sent as int4 if there are several nodes.
inline bool sends_int4(const Deck& deck) {
  return deck.zero.knobs.quantized_gradients && deck.zero.stage == 3 &&
         traits(deck.run.schedule).follows_deepspeed;
}

/// How many ranks a node has: as the deck says, or else `found`.
inline std::int64_t ranks_of_node(const Deck& deck, std::int64_t found) {
  return deck.machine.ranks_per_node > 0 ? deck.machine.ranks_per_node : found;
}

}  // namespace shardmark
