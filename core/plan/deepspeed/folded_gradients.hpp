// SPDX-License-Identifier: Apache-2.0
// What DeepSpeed does to gradients before it reduces them if ranks divide layers as well as
// experts. Each rank has the gradients of its own lane's rows, as many times as there are ranks
// (core/plan/write/lane_exchange.hpp). So the gradients of experts are divided by that number, and
// all others that ranks do not divide are averaged, in fp32, one tensor after another; most of them
// are equal already.
//
// Source: DeepSpeed 0.19.8's module_inject/auto_ep_folding.py, reduce_autoep_folding_gradient.
#pragma once

#include <vector>

#include <core/plan/deepspeed/collectives.hpp>

namespace shardmark {

/// Corrects gradients. Does nothing unless ranks divide layers and experts.
class FoldedGradients : private DeepSpeedPart {
 public:
  FoldedGradients(DeepSpeedContext& context, Collectives& collectives)
      : DeepSpeedPart(context), collectives_(collectives) {}

  /// `grad` is the whole gradient of a parameter, before it is reduced.
  void correct(int param, Operand grad);

 private:
  Collectives& collectives_;
  std::vector<int> wires_;  // by parameter: its gradient in fp32
};

}  // namespace shardmark
