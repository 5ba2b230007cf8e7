// SPDX-License-Identifier: Apache-2.0
// Chooses the model that computes a deck's events.
#pragma once

#include <memory>

#include <core/nn/kernels/context.hpp>
#include <core/plan/deck/deck.hpp>
#include <io/data/witness.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

/// Makes the model of `deck.run.compute`: the transformer with its data, or exact integers. Local.
/// Deck, context and `witness` must outlive it; `witness` may be null, otherwise it sees the data
/// that is read. Throws DeckError if the data cannot be read.
std::unique_ptr<Model> make_model(const Deck& deck, const Program& program, const Context& context,
                                  DataWitness* witness = nullptr);

}  // namespace shardmark
