// SPDX-License-Identifier: Apache-2.0
// Muon at DeepSpeed's stages 1 and 2. A rank keeps the whole gradient of each matrix that touches
// its partition, and so it makes the whole update without another collective: ranks that share a
// matrix make the same update and each applies its own slice. They also keep the whole momentum of
// such a matrix, in the type of the gradients. The momentum of a step is staged until the step is
// known not to be skipped.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, get_flat_partition, _muon_staging_momentum and
// _commit_muon_momentum.
#pragma once

#include <vector>

#include <core/plan/deepspeed/orthogonalizer.hpp>
#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>

namespace shardmark {

/// Declares the momentum of the groups that have matrices, and writes the making of their updates.
class MuonUpdates {
 public:
  MuonUpdates(DeepSpeedContext& context, const FlatStates& states, FlatBuckets& buckets);

  /// Start-up: acquires the momentum and its staged copy, which stay for the whole run. DeepSpeed
  /// makes them in the first step.
  void init();
  /// After the gradients of a step are reduced: makes the updates of matrices from theirs. Updates
  /// are tensors of their own beside the buffer of gradients, if something else keeps that alive.
  void make_updates();
  /// Once the step is not skipped: the staged momentum becomes the momentum.
  void keep_momentum();
  /// The end of a step.
  void release_updates();

 private:
  struct GroupSlots {
    int momentum = no_slot, staged = no_slot;
  };
  void place(int slot, int id);
  void declare_buffers();

  DeepSpeedContext& c_;
  PlanWriter& w_;
  const FlatStates& states_;
  FlatBuckets& buckets_;
  Orthogonalizer orthogonalizer_;
  std::vector<GroupSlots> slots_;     // by group
  std::vector<std::int64_t> offset_;  // by parameter: in its group's momentum; -1 if it has none
  int updates_ = no_slot;             // if they lie apart from the gradients
};

}  // namespace shardmark
