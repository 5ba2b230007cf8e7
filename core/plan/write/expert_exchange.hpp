// SPDX-License-Identifier: Apache-2.0
// What ranks that divide the experts of a layer send each other around them: how many rows each
// expert has, the rows themselves, and the experts' outputs on the way back; in backward the
// gradients of both (Lepikhin et al., GShard, 2020).
//
// Ranks that divide layers as well have the same tokens, and each sends the rows of its lane
// (mixture_sizes.hpp). So that each rank has all rows again, lanes are gathered when the outputs
// are home; in backward each lane's gradients, which all ranks have, are added up.
//
// Source of the calls and their order: DeepSpeed 0.19.8's module_inject/auto_ep_layer.py and
// moe/ep_tp_dispatch.py.
#pragma once

#include <vector>

#include <core/plan/kernels.hpp>
#include <core/plan/model/mixture_sizes.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/tensor_exchange.hpp>

namespace shardmark {

/// Appends the collectives around experts to a plan whose ranks divide them.
class ExpertExchange {
 public:
  /// Declares its slots if ranks divide experts. If ranks divide layers as well, they use
  /// `tensors`.
  ExpertExchange(Program& program, PlanWriter& writer, TensorExchange& tensors);

  /// Whether ranks divide experts. Otherwise there are no slots, and nothing below is to be called.
  bool divides() const { return p_.expert_group >= 0 && p_.trains; }
  int slot_of(ModuleBuffer buffer) const { return slots_[buffer]; }

  /// Whether learned routing decides in each step how many rows the ranks send each other.
  bool routes() const { return routes_; }

  /// To be called around a pass of `module`, before what is sent is made.
  void begin(bool forward, int module);
  void end();
  /// Sends the counts of rows; the rows, or their gradients, to the ranks that have the experts;
  /// and what comes of them back.
  void send_counts();
  void send_away(bool forward);
  void send_home(bool forward);

 private:
  using B = ModuleBuffer;
  void send(Operand from, Operand into, const std::vector<std::int64_t>& to,
            const std::vector<std::int64_t>& from_each, Routed routed);

  // What a slot has of a lane, and what this rank may send of the rows at home: those of its lane.
  Operand lane(B buffer, std::int64_t number) const;
  Operand own_rows(bool writes) const;

  Program& p_;
  PlanWriter& w_;
  TensorExchange& tensors_;
  RowLanes lanes_;
  std::vector<std::int64_t> to_, from_;  // elements, by place in the group
  std::int64_t largest_ = 0;             // that any two ranks exchange
  bool even_ = false;                    // all ranks send each other as much
  bool routes_ = false;
  int module_ = -1;       // around whose pass this is
  std::int64_t own_ = 0;  // elements of this rank's lane
  EnumArray<B, int> slots_;
};

}  // namespace shardmark
