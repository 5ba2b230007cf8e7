// SPDX-License-Identifier: Apache-2.0
// What ranks that divide layers as well as experts send each other around experts. They have the
// same tokens, and each sends the rows of its lane (mixture_sizes.hpp) to the ranks that have the
// experts. So that each rank has all rows again, lanes are gathered when the outputs are home; in
// backward each lane's gradients, which all ranks have, are added up.
//
// Source of the calls and their order: DeepSpeed 0.19.8's moe/ep_tp_dispatch.py.
#pragma once

#include <core/plan/model/mixture_sizes.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/tensor_exchange.hpp>

namespace shardmark {

/// Appends the collectives of lanes to a plan whose ranks divide layers and experts.
class LaneExchange {
 public:
  LaneExchange(Program& program, PlanWriter& writer, TensorExchange& tensors);
  /// Declares its slots if ranks divide both. The rows of all lanes are in `home`.
  void declare(const TransformerDims& dims, int home);

  /// Whether ranks divide both. Otherwise nothing below is to be called.
  bool divides() const { return tokens_ >= 0; }
  int tokens() const { return tokens_; }
  int choices() const { return choices_; }
  int weights() const { return weights_; }
  int pairs() const { return pairs_; }

  /// To be called around a pass.
  void begin(bool forward);
  void end(bool forward);
  /// Gives each rank the outputs of all lanes, and the tokens, choices and weights of their pairs.
  void gather();
  /// Adds up the gradients of weights and of outputs, lane by lane.
  void sum();

 private:
  Operand lane(int slot, std::int64_t lane) const;
  void gather_rows(int slot);

  Program& p_;
  PlanWriter& w_;
  TensorExchange& tensors_;
  RowLanes lanes_;
  int home_ = -1, tokens_ = -1, choices_ = -1, weights_ = -1, pairs_ = -1;
};

}  // namespace shardmark
