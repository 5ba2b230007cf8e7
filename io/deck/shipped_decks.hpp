// SPDX-License-Identifier: Apache-2.0
// The decks that come with the program, found by name.
#pragma once

#include <string>
#include <vector>

#include <io/keys/shipped.hpp>

namespace shardmark {

/// A deck that comes with the program.
struct ShippedDeck {
  std::string name;     // "gpt-tiny-z3"
  std::string path;     // its file
  std::string summary;  // the first sentence of the comment at its top
};

/// Returns all shipped decks, sorted by name; empty without their folder. Throws IoError if a file
/// cannot be read.
std::vector<ShippedDeck> shipped_decks();

/// Returns the same. Throws DeckError if there are none.
std::vector<ShippedDeck> required_decks();

/// Returns the file of a deck that is given as a path or by the name of a shipped deck. Relative
/// output paths of a shipped deck start at the current folder. Throws DeckError for other names.
FoundFile find_deck(const std::string& text);

}  // namespace shardmark
