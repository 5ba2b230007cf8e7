// SPDX-License-Identifier: Apache-2.0
// From a deck's file to typed values that are sound: the only way into a `Deck`.
#pragma once

#include <string>
#include <vector>

#include <core/plan/deck.hpp>
#include <io/finding.hpp>

namespace shardmark {

/// What a deck is read for. Planning needs neither data nor steps, and takes a `list` model that
/// says nothing about `run.compute`; running needs all that it will use.
enum class DeckUse : std::uint8_t { plan, run };

/// A deck with what surrounds it.
struct LoadedDeck {
  Deck deck;
  std::string used_json;    // as used, `--set` and a DeepSpeed config by path included; keys sorted
  std::string hash;         // XXH3 of `used_json`, 16 hexadecimal digits
  std::string config_file;  // of the DeepSpeed config, if it was given by path
  bool overridden = false;  // some `--set` was given
  std::vector<Finding> findings;
};

/// Reads, applies each `key.path=value` of `sets` in order, checks, and types a deck. Relative
/// paths in it start from its folder. Needs no MPI and does not depend on the rank. Throws
/// DeckError: anything wrong, in one line that names file, key, value, bound and remedy.
LoadedDeck read_deck(const std::string& path, const std::vector<std::string>& sets, DeckUse use);

/// `read_deck(path, sets, DeckUse::run).deck`.
Deck load_deck(const std::string& path, const std::vector<std::string>& sets);

}  // namespace shardmark
