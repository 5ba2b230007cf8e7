// SPDX-License-Identifier: Apache-2.0
// Plans one changed deck, and says what it needs and how long a step takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <core/enum_array.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/price/machine.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/predict/memory_fit.hpp>
#include <miniapp/tools/advise/candidates.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {

/// Where a question is asked: a deck on a machine.
struct AdviseCase {
  std::string deck;               // its path
  std::vector<std::string> sets;  // of the user
  const Machine* machine = nullptr;
  int ranks = 1, ranks_per_node = 1;
  Framework framework = Framework::shardmark;
  std::size_t exact_rows = 10;  // of the answer's table, which are planned with all layers

  /// How many of the ranks share a node.
  int per_node() const { return std::min(ranks, ranks_per_node); }
};

/// A key of a candidate that makes no difference there, and the values that were tried.
struct IdleKey {
  std::string key;
  std::vector<std::string> values;
};

/// A candidate with its price.
struct Candidate {
  DeckChanges changes;
  std::vector<std::string> values;      // of the knobs (knobs.hpp)
  std::vector<IdleKey> without_effect;  // keys with which other candidates have the same plan
  Schedule schedule = Schedule::deepspeed;
  int stage = 0;
  bool fits = false;
  bool tight = false;   // it fits, but less than tight_part of a budget is left
  std::string refusal;  // why there is no price: memory, or what the deck's reader says
  EnumArray<Tier, std::int64_t> bytes{};  // that one rank allocates
  std::int64_t missing_bytes = 0;         // of the tier that lacks most; 0: it fits
  double step_s = 0, tokens_per_s = 0;
  std::string limited_by;  // the resource that takes most of the compute lane's time
  Batch batch;
  ParallelSpec parallel;
  bool recomputes = false;
  // Planned with all layers, for the ranks that need most memory and most time. Otherwise for rank
  // 0, and with many layers extrapolated from fewer.
  bool exact = false;
};

/// Plans and prices a candidate. With `exact` true, bytes and seconds are those of memory_fit and
/// predict_program. Otherwise rank 0 stands for all ranks, a deck of many layers is planned with
/// two smaller numbers of layers, and bytes and seconds are extrapolated, since both grow by the
/// layer. A deck that is refused is a result, not an exception.
Candidate evaluate(const AdviseCase& question, const DeckChanges& changes, bool exact);

/// Evaluates each of `changes` with one thread per core, and returns the results in their order.
std::vector<Candidate> evaluate_all(const AdviseCase& question,
                                    const std::vector<DeckChanges>& changes, bool exact);

/// The changed deck. Throws DeckError.
LoadedDeck changed_deck(const AdviseCase& question, const DeckChanges& changes);

/// The program of rank 0 of a changed deck, for further prices.
Program program_of(const AdviseCase& question, const DeckChanges& changes);

}  // namespace shardmark
