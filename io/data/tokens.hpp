// SPDX-License-Identifier: Apache-2.0
// The training data. Any rank makes or reads any sample of any step on its own. The samples of a
// step are numbered globally, so every rank count trains on the same global batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Returns the global number, within a step, of the first sample of `rank`'s micro-batch `g`. The
/// `micro` samples of the micro-batch follow one another.
constexpr std::int64_t first_sample(std::int64_t g, int world, int rank, std::int64_t micro) {
  return (g * world + rank) * micro;
}

/// Makes the samples of a deck's data. Every rank has one; no member function is collective.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Writes the samples [first, first + count) of optimizer step `step` (counted from 0,
  /// warm-up included) to `out`, shape [count][sequence + 1]. The inputs are the first `sequence`
  /// tokens of a row, the targets the last `sequence`. Throws DeckError if the file can no longer
  /// be read.
  virtual void fill(std::int64_t step, std::int64_t first, std::int64_t count,
                    std::int32_t* out) = 0;

  /// Returns the lowest mean loss that any model can reach, in nats; empty if it is not known.
  virtual std::optional<double> entropy_floor() const = 0;
};

/// Returns the source of `deck.data`, which must not be `none`. Throws DeckError if its file cannot
/// be opened or is too short.
std::unique_ptr<TokenSource> make_token_source(const Deck& deck);

}  // namespace shardmark
