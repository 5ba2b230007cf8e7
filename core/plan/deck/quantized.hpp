// SPDX-License-Identifier: Apache-2.0
// What a deck says of the parts of ZeRO++ that quantize.
#pragma once

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Whether gradients are sent as int4 if there are several nodes.
inline bool sends_int4(const Deck& deck) {
  return deck.zero.knobs.quantized_gradients && deck.zero.stage == 3 &&
         traits(deck.run.schedule).follows_deepspeed;
}

}  // namespace shardmark
