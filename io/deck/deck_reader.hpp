// SPDX-License-Identifier: Apache-2.0
// From the file of a deck to typed values that are sound. This is the only way to make a `Deck`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <core/plan/deck/deck.hpp>
#include <io/deepspeed/log.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {

/// The purpose for which a deck is read. Planning needs neither data nor steps, and accepts a
/// `list` model without `run.compute`; running requires all that it will use.
enum class DeckUse : std::uint8_t { plan, run };

/// What a run writes besides its report. No plan depends on these options, so they are not part of
/// a `Deck`.
struct OutputOptions {
  std::string trace;  // file below --out for a trace of the first timed steps; empty: no trace
  DsLogSpec deepspeed;
  /// Whether timed steps are traced, which takes time.
  bool traces_steps() const { return !trace.empty() || deepspeed.wall_clock_every > 0; }
  bool operator==(const OutputOptions&) const = default;
};

/// A deck, the options beside it, and where its values come from.
struct LoadedDeck {
  Deck deck;
  OutputOptions output;
  std::string used_json;  // JSON text with `--set` and configs by path applied; keys are sorted
  std::string
      deepspeed_json;  // the DeepSpeed config in it: "auto" filled, Accelerate's form translated
  std::string hash;    // XXH3 of `used_json`, 16 hexadecimal digits
  std::string config_file;        // path of the DeepSpeed config, if it was given by path
  std::vector<std::string> sets;  // the arguments of `--set`, in order
  std::vector<Finding> findings;
};

/// Reads a deck, given as a path, as the name of a shipped deck, or as its own text, which begins
/// with a brace, applies each `key.path=value` of
/// `sets` in order, checks it, and returns typed values. Relative paths in the deck start from its
/// folder. Needs no MPI and does not depend on the rank. `world` is the number of ranks if it is
/// known; only the section `hf` needs it, to compare train_batch_size as Hugging Face's trainer
/// does. Throws DeckError for anything that is wrong, in one line that names file, key, value,
/// bound and remedy.
LoadedDeck read_deck(const std::string& path, const std::vector<std::string>& sets, DeckUse use,
                     std::optional<int> world = std::nullopt);

/// Whether two complete texts, such as LoadedDeck::used_json, give the same deck and the same
/// output: a default that one of them writes out, or a key that nothing reads, makes no difference.
/// No file is opened. Throws DeckError for a value that is not allowed.
bool same_meaning(const nlohmann::json& a, const nlohmann::json& b);

/// Returns LoadedDeck::used_json, whether the deck is sound or not. Throws DeckError if the file is
/// not JSON or `sets` cannot be applied.
std::string deck_text(const std::string& path, const std::vector<std::string>& sets);

/// Returns `read_deck(path, sets, DeckUse::run).deck`.
Deck load_deck(const std::string& path, const std::vector<std::string>& sets);

}  // namespace shardmark
