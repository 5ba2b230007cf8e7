// SPDX-License-Identifier: Apache-2.0
// The sections of a deck, with one reader each. Only files in io/ use this header; other code calls
// `read_deck`.
#pragma once

#include <core/plan/deck/deck.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/keys/key_reader.hpp>

namespace shardmark {

/// The extents of matrix products, and tokens, are 32-bit integers.
inline constexpr IntRange size_range{1, 2147483647};

/// Each function reads one section. It throws DeckError for a key that is ill-typed, unknown,
/// missing or out of bounds. `run` must have been read before.
void read_model(KeyReader reader, Deck& deck);
/// The sizes of a decoder whose key and value heads each serve as many heads; `family` names its
/// table of keys.
void read_grouped(KeyReader& reader, Deck& deck, std::string_view family);
/// A model of the family `decoder`: its sizes and its description.
void read_decoder(KeyReader& reader, Deck& deck);
/// Its key `adapter`, once its modules are known.
void read_adapter(KeyReader& reader, const ModelSpec& model, Decoder& decoder);
void read_list(KeyReader& reader, Deck& deck);
void read_trace(KeyReader& deck, std::string& trace);
void read_run(KeyReader reader, Deck& deck);
/// For a section that consists of the keys of its records: `comm`, `memory`, `machine`, `expect`.
void read_plain(std::string_view section, KeyReader reader, Deck& deck);
void read_torch(KeyReader reader, Deck& deck);
void read_data(KeyReader reader, Deck& deck);
void read_perturb(KeyReader reader, Deck& deck);
void read_congestion(KeyReader reader, Deck& deck);
void read_checkpoint(KeyReader reader, Deck& deck);

/// Sets the types in which the schedule `torch` stores and computes, from the sections `torch` and
/// `deepspeed`. Throws DeckError if they contradict each other.
void apply_torch(Deck& deck, Origin& origin);
/// Checks the rules that join sections. Throws DeckError.
void check_together(const Deck& deck, Origin& origin);
/// Returns what `run` needs, `plan` does not, and the deck lacks: steps, data, or a model that can
/// do what `run.compute` asks for in the types that it asks for. Each finding has the key and what
/// to give.
std::vector<Finding> missing_to_run(const Deck& deck);
/// Returns an upper bound of the number of parameters of a model. Throws SizeError beyond 63 bits.
std::int64_t most_params(const ModelSpec& model);
/// Checks that a plan of the model takes seconds, before anything lists its tensors. Throws
/// DeckError.
void check_tensors(const Deck& deck);
/// Checks that no count exceeds 63 bits. Throws DeckError.
void check_sizes(const Deck& deck, const Origin& origin);

}  // namespace shardmark
