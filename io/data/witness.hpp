// SPDX-License-Identifier: Apache-2.0
// Shows whether all ranks read the same training data. Ranks train on different samples, so in
// witnessed steps each rank reads the samples of the next rank as well, at the time when it reads
// its own. The hashes of both are compared over ranks afterwards.
#pragma once

#include <cstdint>
#include <memory>

#include <io/data/tokens.hpp>

namespace shardmark {

/// What one rank read. Plain data, so that it can be gathered.
struct WitnessedData {
  std::uint64_t own = 0;   // the hash of this rank's samples, in the order in which it read them
  std::uint64_t next = 0;  // the same of the next rank's samples (of the first after the last)
};

/// Owned by the run, and filled by the source that make_witnessed_source returns.
class DataWitness {
 public:
  /// From now on fills are witnessed, beginning with empty hashes.
  void begin() { data_ = {}, on_ = true; }
  /// Ends that, and returns what was read since `begin`.
  WitnessedData end() {
    on_ = false;
    return data_;
  }

 private:
  friend class WitnessedSource;
  WitnessedData data_;
  bool on_ = false;
};

/// Not collective. `source` with its fills witnessed; `world`, `rank` and `micro` (samples per
/// micro-batch) as in first_sample(). `witness` must outlive the result.
std::unique_ptr<TokenSource> make_witnessed_source(std::unique_ptr<TokenSource> source, int world,
                                                   int rank, const Deck& deck, std::int64_t micro,
                                                   DataWitness& witness);

}  // namespace shardmark
