// SPDX-License-Identifier: Apache-2.0
// The self-check of a run: a small model with exact integer data on the run's own communicator. The
// deck's stage must give stage 0's parameters, bit for bit, and both must be those that each rank
// works out alone.
#pragma once

#include <string>

#include <core/nn/context.hpp>
#include <core/plan/deck.hpp>
#include <miniapp/executor.hpp>
#include <miniapp/peers.hpp>

namespace shardmark {

/// Collective. Empty when it passed, else what was wrong, the same text on all ranks.
std::string self_check(const Deck& deck, const Profile& profile, const Context& context,
                       Communicator& comm, Peers& peers, Fault fault);

}  // namespace shardmark
