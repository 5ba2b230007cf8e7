// SPDX-License-Identifier: Apache-2.0
// The factors of an adapter beside a product y = W x: y += scaling B (A x), after Hu et al., "LoRA:
// Low-Rank Adaptation of Large Language Models" (2021), in the order in which PEFT calls them.
#pragma once

#include <core/nn/models/module_call.hpp>
#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {

/// Both factors of one product. `low_rank`, [rows][rank], keeps scaling A x for backward.
class LowRank {
 public:
  LowRank(const ModuleCall& call, Width product, Stored low_rank)
      : c_(call),
        in_(product.in),
        out_(product.out),
        size_(call.dims.low_rank[call.b.adapts]),
        low_rank_(low_rank) {}

  void forward_a(Tensors t, const Scratch& scratch, ConstStored x) const;
  /// Adds to y, which holds the product.
  void forward_b(Tensors t, const Scratch& scratch, Stored y) const;
  /// Writes `dlow_rank`, the gradient of A x, for backward_a.
  void backward_b(Tensors t, Gradients g, const Scratch& scratch, ConstStored dy,
                  Stored dlow_rank) const;
  /// Writes dx, which may be x, or adds to it, if the input has a gradient.
  void backward_a(Tensors t, Gradients g, const Scratch& scratch, ConstStored x,
                  ConstStored dlow_rank, Stored dx, bool add) const;

 private:
  std::int64_t rank() const { return size_.rank; }
  float scaling() const { return static_cast<float>(size_.scaling); }

  const ModuleCall& c_;
  const std::int64_t in_, out_;
  const LowRankSize size_;
  const Stored low_rank_;
};

}  // namespace shardmark
