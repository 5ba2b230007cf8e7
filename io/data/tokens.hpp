// SPDX-License-Identifier: Apache-2.0
// The training data: any rank makes or reads any sample of any step on its own, and the samples of
// a step are numbered globally, so every rank count trains on the same global batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Global number, within a step, of the first sample of `rank`'s micro-batch `g`; its `micro`
/// samples follow one another.
constexpr std::int64_t first_sample(std::int64_t g, int world, int rank, std::int64_t micro) {
  return (g * world + rank) * micro;
}

/// Makes the samples of a deck's data. Not collective; every rank holds one.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Writes samples [first, first + count) of optimizer step `step` (counted from 0, warm-up
  /// included) to `out`, shape [count][sequence + 1]: inputs are the first `sequence` tokens of a
  /// row, targets the last. Throws DeckError if the file can no longer be read.
  virtual void fill(std::int64_t step, std::int64_t first, std::int64_t count,
                    std::int32_t* out) = 0;

  /// Nats below which no model's mean loss can stay; empty where that is not known.
  virtual std::optional<double> entropy_floor() const = 0;
};

/// Throws DeckError if the data's file cannot be opened or is too short. `deck.data.source` is not
/// none.
std::unique_ptr<TokenSource> make_token_source(const Deck& deck);

}  // namespace shardmark
