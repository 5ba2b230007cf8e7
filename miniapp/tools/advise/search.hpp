// SPDX-License-Identifier: Apache-2.0
// Walks the candidates and picks the best one.
// Candidates with the same plan are one answer.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/advise/evaluate.hpp>
#include <miniapp/tools/advise/next_change.hpp>

namespace shardmark {

/// Steps whose times differ by less than this part are equally fast: no digit that is printed would
/// show it.
inline constexpr double no_difference = 0.0005;

/// The part of a step for which nobody should run without room in memory. Predictions are not that
/// good.
inline constexpr double worth_of_room = 0.01;

struct Advice {
  AdviseCase question;
  Deck deck;                                       // without changes
  std::int64_t global_batch = 0, given_batch = 0;  // of the candidates; of the deck, 0: none
  // The candidates that fit, one per plan, sorted by step time; but the first one is the one with
  // the fewest changes among those that are as fast as the fastest, or as the fastest with room if
  // that one is hardly slower. The best of each stage is exact. Stages with the same plan share a
  // row, and are named in its `without_effect`.
  std::vector<Candidate> candidates;
  std::vector<Candidate> refused;
  std::vector<Candidate> best_of_stage;  // the fastest that fits of each stage, the fastest first
  PredictedPoint best;                   // with its sensitivities
  std::optional<Candidate> with_room;    // the fastest that is not tight, where the best one is
  // The fastest that divides tensors, samples or experts if the best one divides nothing, and the
  // reverse; exact. Nothing if no such candidate fits, or if `divisions_tried` is false.
  std::optional<Candidate> of_other_kind;
  bool divisions_tried = false;
  std::vector<Crossing> crossings;  // of best_of_stage
  DeckChanges needed;               // of the best one's changes those that change anything
  Candidate as_given;               // the deck without changes
  std::vector<std::string> given;   // values of its knobs (knobs.hpp)
  // Values of the knobs if only the deck's stage is changed: the defaults of some keys depend on
  // the stage. The stage itself stays that of `given`.
  std::array<std::vector<std::string>, 4> given_at_stage;
  std::size_t considered = 0;

  /// What a candidate's knobs are compared with.
  const std::vector<std::string>& given_beside(const Candidate& c) const {
    return given_at_stage[c.stage];
  }
};

/// Evaluates all candidates for `global_batch` sequences per step (0: what the deck gives). Uses a
/// thread per core. Throws DeckError if the batch cannot be divided among the ranks or if the
/// deck itself is wrong, and MemoryError, with the number of ranks that would be enough, if nothing
/// fits.
Advice advise(AdviseCase question, std::int64_t global_batch);

/// Merges candidates of the same schedule and stage whose plans need the same bytes in each tier
/// and the same seconds. The one with the fewest changes remains, and the keys in which the others
/// differ from it become its `without_effect`, with the values that make no difference. The order
/// is kept.
std::vector<Candidate> distinct(std::vector<Candidate> candidates);

/// Merges candidates that `distinct` leaves apart because of their stages alone: with one
/// accumulation step stages 1 and 2 of DeepSpeed do the same. The first one remains.
std::vector<Candidate> distinct_but_for_stage(std::vector<Candidate> candidates);

/// Adds a key with its values to a list in which each key and each value stands once.
void merge_idle(std::vector<IdleKey>& keys, const IdleKey& more);

}  // namespace shardmark
