// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <xxhash.h>

#include <io/data/witness.hpp>

namespace shardmark {

class WitnessedSource : public TokenSource {
 public:
  WitnessedSource(std::unique_ptr<TokenSource> source, std::int64_t to_next, std::int64_t row,
                  DataWitness& witness)
      : source_(std::move(source)), to_next_(to_next), row_(row), witness_(witness) {}

  void fill(std::int64_t step, std::int64_t first, std::int64_t count, std::int32_t* out) override {
    source_->fill(step, first, count, out);
    if (!witness_.on_) return;
    next_.resize(static_cast<std::size_t>(count * row_));
    source_->fill(step, first + to_next_, count, next_.data());
    add(witness_.data_.own, out);
    add(witness_.data_.next, next_.data());
  }
  std::optional<double> entropy_floor() const override { return source_->entropy_floor(); }

 private:
  // The hash so far is the seed, so the order of the fills counts.
  void add(std::uint64_t& hash, const std::int32_t* tokens) const {
    hash = XXH3_64bits_withSeed(tokens, next_.size() * sizeof *tokens, hash);
  }

  std::unique_ptr<TokenSource> source_;
  std::int64_t to_next_, row_;
  DataWitness& witness_;
  std::vector<std::int32_t> next_;
};

std::unique_ptr<TokenSource> make_witnessed_source(std::unique_ptr<TokenSource> source, int world,
                                                   int rank, const Deck& deck, std::int64_t micro,
                                                   DataWitness& witness) {
  const int next = (rank + 1) % world;
  return std::make_unique<WitnessedSource>(std::move(source), (next - rank) * micro,
                                           deck.model.sequence + 1, witness);
}

}  // namespace shardmark
