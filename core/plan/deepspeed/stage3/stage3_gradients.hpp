// SPDX-License-Identifier: Apache-2.0
// Gradients of DeepSpeed's stage 3: through one bucket, reduce-scattered rank-major, into this
// rank's gradient partitions. At most one bucket is on its way.
#pragma once

#include <optional>

#include <core/plan/deepspeed/stage3/stage3_params.hpp>

namespace shardmark {

class ShardedGradients : public ShardedParams {
 public:
  using ShardedParams::ShardedParams;

 protected:
  /// Before a micro-batch: the first, the last of its step.
  void begin_gradients(bool first_micro, bool last_micro) {
    first_micro_ = first_micro;
    last_micro_ = last_micro;
  }
  /// Puts a ready gradient into the bucket; sends the bucket first where it would grow too large.
  void add_to_bucket(int id);
  /// Sends what the bucket holds.
  void flush();
  /// Waits for the bucket on its way and keeps this rank's shards.
  void retire();
  /// What is left on the device of a sub-group's gradients is not needed any more.
  void drop_kept(std::size_t g);

  int bucket_ = no_slot;  // allocated once for the whole run

 private:
  struct Entry {
    int param;
    Operand grad;  // in the bucket, or its own tensor
  };
  // A bucket on its way: `reduced` holds this rank's shards of the entries, one after another, or,
  // after an all_reduce, whole gradients.
  struct Sent {
    std::vector<Entry> entries;
    Operand reduced;
    bool whole = false;
    int flattened = no_slot;
  };
  std::vector<int> ids(const Sent& sent) const;
  void reduce_whole(Sent& sent);
  void reduce_scatter(Sent& sent);
  void bounce(int id, Operand reduced);
  void drop_after_copies(int slot);

  std::vector<Entry> in_bucket_;
  std::int64_t held_ = 0;  // elements of the bucket
  std::optional<Sent> in_flight_;
  bool first_micro_ = true, last_micro_ = true;
  std::vector<int> bounced_;  // by parameter: its shard's gradient, back from the host
  int flats_ = 0;             // names of the interleaved copies
};

}  // namespace shardmark
