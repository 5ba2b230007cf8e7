// SPDX-License-Identifier: Apache-2.0
// Input files that come with the program, found by name.
#pragma once

#include <string>
#include <vector>

namespace shardmark {

/// Returns the folder of the shipped inputs: `share/shardmark/inputs` of the installation that the
/// running program belongs to, or `inputs` of the source tree in which it was built. Empty if
/// neither exists.
std::string shipped_folder();

/// One kind of input files.
struct ShippedKind {
  std::string folder;   // below shipped_folder(); empty: that folder itself
  std::string what;     // "deck", for messages
  std::string listing;  // how a user lists them, for messages
};

/// Returns the paths of all shipped files of a kind, sorted; empty without their folder.
std::vector<std::string> shipped_files(const ShippedKind& kind);

/// An input file as the user named it.
struct FoundFile {
  std::string path;
  bool by_name = false;  // it is a shipped file
};

/// Returns `text` itself if it is the path of a file, and otherwise the shipped file of that name,
/// without folder and suffix (`gpt-tiny-z3`). Throws DeckError, with the nearest name, if `text`
/// cannot be a path and no shipped file of the kind has that name.
FoundFile find_shipped(const std::string& text, const ShippedKind& kind);

}  // namespace shardmark
