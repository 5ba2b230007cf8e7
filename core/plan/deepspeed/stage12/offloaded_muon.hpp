// SPDX-License-Identifier: Apache-2.0
// Muon at DeepSpeed's stages 1 and 2 with the optimizer on the host. Each rank has its partition of
// gradients and momentum there, in fp32. In each step that is not skipped every rank gathers all
// matrices on the device, makes all updates, and takes its own part of them down again.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, _apply_muon_updates_cpu_offload.
#pragma once

#include <vector>

#include <core/plan/deepspeed/orthogonalizer.hpp>
#include <core/plan/deepspeed/stage12/muon_gathers.hpp>
#include <core/plan/deepspeed/stage12/whole_matrices.hpp>

namespace shardmark {

/// Declares the momentum of the groups that have matrices, and writes the making of their updates.
class OffloadedMuon {
 public:
  OffloadedMuon(DeepSpeedContext& context, const FlatStates& states, Collectives& collectives,
                StepScalars& scalars)
      : c_(context),
        w_(context.writer),
        states_(states),
        scalars_(scalars),
        orthogonalizer_(context),
        gathers_(context, states, collectives),
        momentum_(states.groups().size(), no_slot),
        grads_(w_, "whole_gradients."),
        momenta_(w_, "whole_momentum.") {}

  /// Start-up: acquires the momentum, which DeepSpeed makes in the first step.
  void init();
  /// The update of a step, before its norm is taken: the gradients of matrices become updates. The
  /// momentum of the `first` update is zero and not gathered.
  void make_updates(bool first);

 private:
  void make_updates(const MuonBatch& batch, bool first);
  void take_own(const MuonBatch& batch, const MuonPiece& piece, int grads, int momentum);

  DeepSpeedContext& c_;
  PlanWriter& w_;
  const FlatStates& states_;
  StepScalars& scalars_;
  Orthogonalizer orthogonalizer_;
  MuonGathers gathers_;
  std::vector<int> momentum_;      // by group: this rank's partition
  WholeMatrices grads_, momenta_;  // of a batch
};

}  // namespace shardmark
