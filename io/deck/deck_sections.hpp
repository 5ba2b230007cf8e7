// SPDX-License-Identifier: Apache-2.0
// The sections of a deck, one reader each. Inside io/ only; users call `read_deck`.
#pragma once

#include <core/plan/deck/deck.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/keys/key_reader.hpp>

namespace shardmark {

/// Each of these reads one section. Throws DeckError for an ill-typed, unknown or missing key, or a
/// value out of its bounds.
void read_model(KeyReader reader, ModelSpec& model, std::string_view schedule);
void read_list(KeyReader& reader, ModelSpec& model, std::string_view schedule);
void read_trace(KeyReader& deck, std::string& trace);
void read_run(KeyReader reader, RunSpec& run);
void read_data(KeyReader reader, DataSpec& data, std::uint64_t run_seed);
void read_comm(KeyReader reader, CommSpec& comm);
void read_memory(KeyReader reader, MemorySpec& memory);
void read_machine(KeyReader reader, MachineSpec& machine);
void read_checkpoint(KeyReader reader, CheckpointSpec& checkpoint);
void read_expect(KeyReader reader, ExpectSpec& expect);

/// What sections must agree on. Throws DeckError.
void check_together(const Deck& deck, Origin& origin);
/// What `run` needs and `plan` does not, as far as it is not there: steps, data, a model that can
/// do what `run.compute` says, in the types that it asks for. Keys with what to give.
std::vector<Finding> missing_to_run(const Deck& deck);
/// Sizes whose counts leave 63 bits. Throws DeckError.
void check_sizes(const Deck& deck, const Origin& origin);

}  // namespace shardmark
