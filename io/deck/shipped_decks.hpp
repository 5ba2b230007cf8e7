// SPDX-License-Identifier: Apache-2.0
// The decks that come with the program, found by name.
#pragma once

#include <string>
#include <vector>

namespace shardmark {

/// A deck that comes with the program.
struct ShippedDeck {
  std::string name;     // "gpt-tiny-z3"
  std::string path;     // its file
  std::string summary;  // the first sentence of the comment at its top
};

/// Returns the folder of the shipped decks: `share/shardmark/inputs` of the installation that the
/// running program belongs to, or `inputs` of the source tree in which it was built. Empty if
/// neither exists.
std::string shipped_folder();

/// Returns all shipped decks, sorted by name; empty without their folder. Throws IoError if a file
/// cannot be read.
std::vector<ShippedDeck> shipped_decks();

/// A deck as the user named it.
struct FoundDeck {
  std::string path;
  bool by_name = false;  // a shipped deck: its relative output paths start at the current folder
};

/// Returns `text` itself if it is the path of a file, and otherwise the shipped deck of that name
/// (`gpt-tiny-z3`). Throws DeckError, with the nearest name, if `text` cannot be a path and no
/// shipped deck has that name.
FoundDeck find_deck(const std::string& text);

}  // namespace shardmark
