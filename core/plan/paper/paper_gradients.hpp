// SPDX-License-Identifier: Apache-2.0
// The gradients of the schedule `paper`, from a module's backward to this rank's share of the sum.
//
// Gradients are made and reduced in the model's type; micro-batches add up in the type
// data_types.grad_accum_dtype:
//   stages 0, 1   If both types are equal, backward adds in place. Otherwise (at stage 1) each
//                 micro-batch's gradient is made in a bucket and added to a sum, and the sum goes
//                 through the bucket to its reduction.
//   stages 2, 3   Each micro-batch's gradient is made and reduced in a bucket, and this rank's
//   share
//                 is then added to what earlier micro-batches left.
//
// If states are sharded on two levels (run.shard_size), a reduction has two parts, as in FSDP's
// HYBRID_SHARD: a reduce_scatter in the shard group, then an all_reduce of the share among
// replicas, each an average. A rank that holds all states by itself needs only the second part.
#pragma once

#include <set>

#include <core/plan/paper/paper_context.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

/// Writes backward of each unit and the reductions of its gradients.
class PaperGradients : private PaperPart {
 public:
  explicit PaperGradients(PaperContext& context) : PaperPart(context) {}

  /// Before the backward of a micro-batch.
  void begin_backward(const MicroBatch& micro);
  void backward(int module);
  /// Starts the reduction of the unit whose backward has just been written, and continues with
  /// those of earlier units. While the next unit is computed, at most one unit's whole gradient and
  /// one unit's share are in flight.
  void reduce(int u);
  /// Completes the reductions in flight.
  void finish();
  /// The part of a unit's reduced gradient from which this rank updates.
  Operand owned(int u) const;

 private:
  int stage() const { return c_.stage(); }
  const UnitSlots& slots_of(int u) const { return c_.slots_of(u); }
  int full_grad(int u) const;
  void acquire_full_grad(int u);
  void add_micro_batch(int u);
  Operand reduced(int u) const;
  void advance();
  void retire(int u);
  // Stages 2, 3: whether this rank's share of a reduced gradient needs a buffer before it is added
  // to `grad`, because it is not the first or has another type.
  bool reduces_into_part() const { return !micro_.first || c_.separate_accum(); }

  MicroBatch micro_;
  std::set<int> begun_;  // parameters whose gradient this backward has written to
  // Units whose reduction has started and is not complete: in its first part, and among replicas.
  int in_flight_ = no_unit, among_replicas_ = no_unit;
};

}  // namespace shardmark
