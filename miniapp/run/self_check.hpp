// SPDX-License-Identifier: Apache-2.0
// The self-check of a run: a small model with exact integer data on the run's own communicators.
// The deck's stage must give stage 0's parameters, bit for bit, and both must be those that each
// rank works out alone.
#pragma once

#include <string>
#include <vector>

#include <core/nn/kernels/context.hpp>
#include <core/plan/deck/deck.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. `groups`: the lanes of the run's program, whose groups are those of its stage here.
/// Empty when it passed, else what was wrong, the same text on all ranks.
std::string self_check(const Deck& deck, const Profile& profile, const Context& context,
                       const std::vector<Communicator*>& groups, Peers& peers, Fault fault);

}  // namespace shardmark
