// SPDX-License-Identifier: Apache-2.0
// The self-check of a run: models with exact integer data on the run's own communicators, with the
// deck's own knobs. A small model has several of everything; the deck's stage must produce the
// parameters of stage 0, bit for bit, and both must be those that each rank computes alone. A
// larger one has messages of real size, in several pieces and with odd tails.
#pragma once

#include <string>

#include <core/nn/kernels/context.hpp>
#include <core/plan/deck/deck.hpp>
#include <miniapp/ranks/faults.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. `lanes` are those of the run's program, whose groups are the same here. Returns an
/// empty text if the check passed, else what was wrong, the same text on all ranks.
std::string self_check(const Deck& deck, const Profile& profile, Context& context,
                       const Lanes& lanes, Peers& peers, Fault fault);

}  // namespace shardmark
