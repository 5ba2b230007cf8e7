// SPDX-License-Identifier: Apache-2.0
// What ranks that divide layers send each other while a model computes: sums of parts, and parts
// that make up a whole.
#pragma once

#include <span>
#include <vector>

#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// Appends collectives of the ranks that divide layers. There are such ranks, or nothing is to be
/// called.
class TensorExchange {
 public:
  TensorExchange(Program& program, PlanWriter& writer) : p_(program), w_(writer) {}

  /// Declares the scratch that sums of up to `elems` elements need, if they need any.
  void declare(Dtype dtype, std::int64_t elems, const Profile& profile);
  /// The slot that must be alive during a micro-batch; no_slot if sums need no scratch.
  int scratch() const { return scratch_; }

  /// Adds up what the ranks have of `data`, in its type as torch does; each rank has the sum then.
  void sum(Operand data);
  void gather(Operand own, Operand whole);

  /// Returns where this rank's parts of gradients go, which ranks add up before anything else is
  /// done with them: to `grads`, or to slots of their own if `grads` are added to.
  std::vector<Operand> begin_gradients(std::span<const Operand> grads);
  /// Adds up the parts, and adds them to `grads` if they lie elsewhere.
  void sum_gradients(std::span<const Operand> parts, std::span<const Operand> grads);

 private:
  Program& p_;
  PlanWriter& w_;
  int scratch_ = no_slot;
  std::vector<int> parts_;  // slots of a module's weight and bias, as large in all norms of heads
};

}  // namespace shardmark
