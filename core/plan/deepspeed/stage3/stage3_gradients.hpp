// SPDX-License-Identifier: Apache-2.0
// The way of the gradients of DeepSpeed's stage 3: through one bucket, reduce-scattered rank-major,
// into this rank's gradient partitions. At most one bucket is in flight.
#pragma once

#include <optional>
#include <vector>

#include <core/plan/deepspeed/gradient_offload.hpp>
#include <core/plan/deepspeed/model_gradients.hpp>
#include <core/plan/deepspeed/stage3/stage3_params.hpp>
#include <core/plan/deepspeed/step_scalars.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

/// Fills, sends and receives the bucket, and adds to this rank's gradient partitions.
class ShardedBucket {
 public:
  ShardedBucket(DeepSpeedContext& context, Collectives& collectives, ModelGradients& grads,
                StepScalars& scalars, OptimizerSwapper& swapper, ShardedParams& params)
      : c_(context),
        p_(context.program),
        w_(context.writer),
        collectives_(collectives),
        grads_(grads),
        scalars_(scalars),
        swapper_(swapper),
        params_(params),
        offload_(context) {}

  /// Start-up: acquires the bucket for the whole run, if gradients are contiguous.
  void acquire();
  void begin_micro(const MicroBatch& micro) { micro_ = micro; }
  /// Puts a ready gradient into the bucket, and sends the bucket first if it would grow too large.
  void add(int id);
  /// Sends what the bucket holds, waits for it, and keeps this rank's shards.
  void finish();
  /// Releases what an updated or skipped sub-group left of its gradients on the device.
  void drop_kept(std::size_t g);

 private:
  struct Entry {
    int param;
    Operand grad;  // in the bucket, or its own tensor
  };
  // A bucket in flight. `reduced` holds this rank's shards of the entries, one after another, or,
  // after an all_reduce, whole gradients.
  struct Sent {
    std::vector<Entry> entries;
    Operand reduced;
    bool whole = false;
    int flattened = no_slot;
  };
  std::vector<int> ids(const Sent& sent) const;
  void send();
  void receive();
  void reduce_whole(Sent& sent);
  void reduce_scatter(Sent& sent);
  void bounce(int id, Operand reduced);
  void drop_after_copies(int slot);

  DeepSpeedContext& c_;
  Program& p_;
  PlanWriter& w_;
  Collectives& collectives_;
  ModelGradients& grads_;
  StepScalars& scalars_;
  OptimizerSwapper& swapper_;
  ShardedParams& params_;
  GradientOffload offload_;
  int slot_ = no_slot;  // the bucket
  std::vector<Entry> in_bucket_;
  std::int64_t held_ = 0;  // elements of the bucket
  std::optional<Sent> in_flight_;
  MicroBatch micro_;
  std::vector<int> bounced_;  // by parameter: its shard's gradient, back from the host
  int flats_ = 0;             // numbers the interleaved copies
};

}  // namespace shardmark
