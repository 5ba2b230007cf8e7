// SPDX-License-Identifier: Apache-2.0
// Writes what the model computes, module by module, for every schedule alike: which activations a
// module needs and when they come and go. Where parameters and gradients lie is the schedule's.
#pragma once

#include <span>
#include <vector>

#include <core/plan/kernels.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

inline constexpr int no_slot = -1;

/// Appends the forward and backward events of modules to a plan.
class ComputeWriter {
 public:
  /// Declares the activations' slots where the deck trains a model whose arithmetic is here.
  ComputeWriter(Program& program, PlanWriter& writer, const Deck& deck, const Profile& profile);

  /// Persistent slots that init acquires: the loss.
  std::vector<int> persistent() const;

  /// Around a micro-batch: what all its modules share.
  void begin_micro(int micro_batch);
  void end_micro();

  /// `params`: where each of params_of(module) lies now, whole. `grads`: where the gradients go;
  /// one that reads is added to.
  void forward(int module, std::span<const Operand> params);
  void backward(int module, std::span<const Operand> params, std::span<const Operand> grads);

  /// With activation checkpointing, right before the first backward of a block: its modules'
  /// forward once more, from the block's input, which is all that was kept. `params(module)`: as
  /// forward's. (A schedule that follows ModelShape::visits calls forward itself where they say
  /// so.)
  template<class Params>
  void recompute_before(int module, Params params) {
    if (!trains_ || !p_.model.recompute) return;
    for (int m : again_[module]) forward(m, params(m));
  }

 private:
  struct UnitBuffers {
    int x_in = no_slot;   // residual stream that enters the unit
    int saved = no_slot;  // what its forward saves for its backward; recomputed: of all blocks
    int workspace_forward = no_slot, workspace_backward = no_slot;
    int first_module = -1, last_module = -1;
  };
  void declare(const Profile& profile);
  Role role(int module) const;
  bool drops(int unit) const;
  int slot_of(ModuleBuffer buffer, int unit, Kernel kernel) const;
  void write(Kernel kernel, int module, std::vector<Operand> operands);
  void acquire(std::initializer_list<int> slots);
  void release(std::initializer_list<int> slots);

  Program& p_;
  PlanWriter& w_;
  const bool trains_;
  std::vector<UnitBuffers> units_;
  std::vector<std::vector<int>> again_;  // ModelShape::recomputed_before
  int tokens_ = no_slot, dx_ = no_slot, loss_ = no_slot;
  bool first_micro_ = true, in_backward_ = false;
};

}  // namespace shardmark
