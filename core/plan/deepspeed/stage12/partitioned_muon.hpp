// SPDX-License-Identifier: Apache-2.0
// Muon in DeepSpeed's BF16_Optimizer. Every rank has the whole fp32 gradients, but only its
// partition of the momentum. In each step one all_to_all gives each rank the rest of the momentum
// of matrices that it shares with others. It makes the updates of the matrices that its partition
// touches, one after the other, from clipped gradients, and applies its own slices.
//
// Source: DeepSpeed 0.19.8's runtime/bf16_optimizer.py, _build_muon_exchange_layout and
// _prepare_muon_updates.
#pragma once

#include <vector>

#include <core/plan/deepspeed/orthogonalizer.hpp>
#include <core/plan/deepspeed/stage12/stage12_states.hpp>
#include <core/plan/deepspeed/stage12/whole_matrices.hpp>

namespace shardmark {

/// Declares the momentum of the groups that have matrices, and writes the making of their updates.
class PartitionedMuon {
 public:
  PartitionedMuon(DeepSpeedContext& context, const FlatStates& states, StepScalars& scalars)
      : c_(context),
        w_(context.writer),
        states_(states),
        scalars_(scalars),
        orthogonalizer_(context),
        groups_(states.groups().size()),
        grads_(w_, "whole_gradient."),
        momenta_(w_, "whole_momentum.") {}

  /// Start-up: acquires the momentum, which DeepSpeed makes in the first step.
  void init();
  /// Once gradients can be clipped: puts the updates of this rank's slices into their places in
  /// `grads`, the whole fp32 gradients of group `g`.
  void make_updates(std::size_t g, int grads);

 private:
  struct Group {
    int momentum = no_slot;                  // this rank's partition
    int sent = no_slot, received = no_slot;  // parts of others' matrices, and of this rank's
    std::vector<std::int64_t> to, from;      // how much each rank is sent, and sends
    std::int64_t largest_part = 0;           // that any two ranks exchange; 0 if nothing is shared
  };
  void find_parts(std::size_t g);
  void exchange(std::size_t g);
  void update(std::size_t g, int id, int grads);
  /// Puts this rank's and the received parts of a matrix's momentum into `whole`.
  void assemble(std::size_t g, int id, int whole);
  /// Where the owned slice of a matrix begins in this rank's partition.
  std::int64_t at(std::size_t g, int id) const {
    return states_.flat().offset_of(id) + states_.owned(id).first - states_.own_first(g);
  }
  bool shared(int id) const { return states_.flat().owners(id).size() > 1; }

  DeepSpeedContext& c_;
  PlanWriter& w_;
  const FlatStates& states_;
  StepScalars& scalars_;
  Orthogonalizer orthogonalizer_;
  std::vector<Group> groups_;
  WholeMatrices grads_, momenta_;  // of one matrix at a time
};

}  // namespace shardmark
