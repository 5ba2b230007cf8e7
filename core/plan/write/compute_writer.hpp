// SPDX-License-Identifier: Apache-2.0
// Writes what the model computes, module by module, in the same way for every schedule: which
// activations a module needs, and when they are acquired and released. The schedule decides where
// parameters and gradients lie.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <core/plan/kernels.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/expert_exchange.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/sequence_exchange.hpp>
#include <core/plan/write/tensor_exchange.hpp>

namespace shardmark {

/// Where a whole parameter lies now.
using ParamPlaces = std::function<Operand(int param)>;

/// Appends the forward and backward events of modules to a plan.
class ComputeWriter {
 public:
  /// Declares the slots of activations if the program trains.
  ComputeWriter(Program& program, PlanWriter& writer, const Profile& profile);

  /// To be called by init: acquires what lives for the whole run, which is the loss.
  void acquire_persistent() { w_.ensure({loss_}); }

  /// To be called around a micro-batch, for what all its modules share.
  void begin_micro(int micro_batch);
  void end_micro();

  /// Writes what precedes the pass of a module that begins with an exchange, as experts' does if
  /// ranks divide them; the pass itself writes that otherwise. Of other modules and visits it
  /// writes nothing.
  void begin(int module, VisitKind visit);

  /// Writes what the last backward of a divided module left to do: its ranks add up the gradient of
  /// the input, those that divide samples compute attention, or those that divide experts return
  /// gradients. The next call does so, too; a
  /// schedule calls this where what it writes in between comes later, as the hooks of a module do,
  /// but not those of its gradients.
  void end_backward();

  /// `grads` says where the gradients of trained_params_of(module) go. A gradient operand that
  /// reads is added to.
  void forward(int module, const ParamPlaces& where);
  void backward(int module, const ParamPlaces& where, std::span<const Operand> grads);
  /// Drops what forward kept for a module, as its backward does in the end. To be called in place
  /// of backward for a module whose output has no gradient.
  void drop_after_backward(int module);

  /// With activation checkpointing, to be called right before the first backward of a block: runs
  /// the forward of its modules again from the block's input, which is all that was kept. (A
  /// schedule that follows ModelShape::visits calls forward itself where the visits say so.)
  void recompute_before(int module, const ParamPlaces& where) {
    if (!trains_ || !p_.model.recompute) return;
    for (int m : again_[module]) forward(m, where);
  }

 private:
  struct UnitBuffers {
    int x_in = no_slot;   // the residual stream that enters the unit
    int saved = no_slot;  // what forward saves for backward; one for all recomputed blocks
    int workspace_forward = no_slot, workspace_backward = no_slot;
    int first_module = -1, last_module = -1;      // of forward
    int first_backward = -1, last_backward = -1;  // -1: nothing has a gradient
  };
  void declare(const Profile& profile);
  Role role(int module) const;
  bool drops(int unit) const;
  int saved_slot(int unit, Dtype dtype, std::int64_t elems);
  bool writes_output(int module, bool last) const;
  void write_backward(int module, const ParamPlaces& where, const std::vector<int>& trained,
                      std::span<const Operand> grads);
  int slot_of(ModuleBuffer buffer, int unit, Kernel kernel) const;
  Operand operand_of(const BufferUse& use, int unit, Kernel kernel) const;
  void write(Kernel kernel, int module, std::vector<Operand> operands, std::span<const int> params);
  void end_forward(int module, const ParamPlaces& where);
  Role last_before_attention() const;
  AttentionPlace attention_place(int module, Kernel kernel) const;
  bool exchanged(int module) const { return trains_ && p_.model.modules[module].exchanged; }
  void begin_exchanged(Kernel kernel, int module);
  void open_backward(int module);
  void end_exchanged(Kernel kernel, int module);

  Program& p_;
  PlanWriter& w_;
  const bool trains_;
  std::vector<UnitBuffers> units_;
  std::vector<std::vector<int>> again_;  // ModelShape::recomputed_before
  SharedDecoder decoder_;
  const bool divided_;
  TensorExchange tensors_;
  SequenceExchange sequences_;
  ExpertExchange experts_;
  int begun_ = -1;  // the module whose exchange precedes its pass
  int tokens_ = no_slot, dx_ = no_slot, loss_ = no_slot;
  int balance_ = no_slot;                    // as mixture_sizes.hpp says
  int partial_ = no_slot;                    // what ranks add up
  int last_backward_ = -1;                   // module of a pass
  int open_ = -1;                            // the module whose backward is to be ended
  std::int64_t logits_at_ = 0, logits_ = 0;  // in the head's `saved`
  bool first_micro_ = true, in_backward_ = false;
};

}  // namespace shardmark
