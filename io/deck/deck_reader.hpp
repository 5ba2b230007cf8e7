// SPDX-License-Identifier: Apache-2.0
// From a deck's file to typed values that are sound: the only way into a `Deck`.
#pragma once

#include <string>
#include <vector>

#include <core/plan/deck/deck.hpp>
#include <io/keys/finding.hpp>

namespace shardmark {

/// What a deck is read for. Planning needs neither data nor steps, and takes a `list` model that
/// says nothing about `run.compute`; running needs all that it will use.
enum class DeckUse : std::uint8_t { plan, run };

/// What a DeepSpeed config asks to be told of a run.
struct DsLogSpec {
  bool comms = false, comms_all = true;  // comms_logger: enabled, prof_all
  bool comms_verbose = false;            // verbose: a line a call
  std::vector<std::string> comms_ops;    // prof_ops: DeepSpeed's names of collectives
  std::int64_t wall_clock_every = 0;     // steps; 0: wall_clock_breakdown is off
};

/// What is to be told of a run besides its report. No plan depends on it, so it is no part of a
/// `Deck`.
struct Telling {
  std::string trace;  // file below --out for a trace of the first timed steps; empty: none
  DsLogSpec deepspeed;
};

/// A deck with what surrounds it.
struct LoadedDeck {
  Deck deck;
  Telling telling;
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

/// LoadedDeck::used_json alone, whether it is sound or not. Throws DeckError: no JSON, or a `sets`
/// that cannot be applied.
std::string deck_text(const std::string& path, const std::vector<std::string>& sets);

/// `read_deck(path, sets, DeckUse::run).deck`.
Deck load_deck(const std::string& path, const std::vector<std::string>& sets);

}  // namespace shardmark
