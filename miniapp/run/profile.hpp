// SPDX-License-Identifier: Apache-2.0
// What a run's plan depends on besides its deck.
#pragma once

#include <comm/mpi/node.hpp>
#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Ranks per node, back-end and limits of scratch on this machine. Local. Throws DeckError if the
/// deck or the environment asks for something that this build or this layout of ranks lacks.
Profile run_profile(const Deck& deck, const Node& node, int world);

}  // namespace shardmark
