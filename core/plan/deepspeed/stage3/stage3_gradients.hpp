// SPDX-License-Identifier: Apache-2.0
// The way of the gradients of DeepSpeed's stage 3: through one bucket for each type in which they
// are sent, reduce-scattered rank-major, into this rank's gradient partitions. At most one bucket
// is in flight. With zero_quantized_gradients and several nodes, the gradients of a bucket are
// reduced one by one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <core/plan/deepspeed/gradient_offload.hpp>
#include <core/plan/deepspeed/stage3/quantized_reduce.hpp>
#include <core/plan/deepspeed/stage3/stage3_params.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

/// Fills, sends and receives the buckets, and adds to this rank's gradient partitions.
class ShardedBucket : private StagePart {
 public:
  ShardedBucket(StageContext& context, ShardedParams& params)
      : StagePart(context), params_(params), quantized_(context), offload_(context) {}

  /// Start-up: acquires the buckets for the whole run, if gradients are contiguous.
  void acquire();
  void begin_micro(const MicroBatch& micro) { micro_ = micro; }
  /// Puts a ready gradient into its bucket, and sends the bucket first if it would grow too large.
  void add(int id);
  /// Sends what the buckets hold, waits for it, and keeps this rank's shards.
  void finish();
  /// Releases what an updated or skipped sub-group left of its gradients on the device.
  void drop_kept(std::size_t g);

 private:
  struct Entry {
    int param;
    Operand grad;          // in the bucket, or its own tensor
    Operand reduced = {};  // this rank's shard, without padding
  };
  // A bucket that is being filled.
  struct Bucket {
    Dtype type;          // in which its gradients lie and are sent
    int slot = no_slot;  // no_slot if gradients are not contiguous
    std::vector<Entry> entries = {};
    std::int64_t held = 0;  // its elements
  };
  // A bucket in flight.
  struct Sent {
    Dtype type;
    std::vector<Entry> entries;
    std::vector<int> made = {};  // slots that live until the shards are kept
    bool in(int slot) const { return !entries.empty() && entries[0].reduced.slot == slot; }
  };
  static std::vector<int> ids(std::span<const Entry> entries);
  Bucket& bucket_of(int id);
  void send(Bucket& bucket);
  void receive();
  void reduce_whole(const Bucket& bucket, Sent& sent);
  void reduce_scatter(Sent& sent, std::span<Entry> entries);
  void reduce_quantized(Sent& sent);
  Operand as_sent(Sent& sent, const Entry& entry);
  void bounce(int id, Operand reduced);
  void drop_after_copies(int slot);

  ShardedParams& params_;
  QuantizedReduce quantized_;
  GradientOffload offload_;
  std::vector<Bucket> buckets_;  // by type, in DeepSpeed's order
  std::optional<Sent> in_flight_;
  MicroBatch micro_;
  std::vector<int> bounced_ = c_.no_slots();  // by parameter: its shard, back from the host
  int flats_ = 0;                             // numbers the interleaved copies
  std::vector<int> wires_ = c_.no_slots();    // by parameter: its gradient in the type that is sent
};

}  // namespace shardmark
