// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/models/adapter.hpp>

namespace shardmark {

void LowRank::forward_a(Tensors t, const Scratch& scratch, ConstStored x) const {
  scratch.linear().forward(in_, rank(), x, t.weight, nullptr, low_rank_);
  scaled_copy(c_.ctx, c_.rows * rank(), low_rank_, scaling(), low_rank_);
}

void LowRank::forward_b(Tensors t, const Scratch& scratch, Stored y) const {
  scratch.linear().forward(rank(), out_, low_rank_, t.weight, nullptr, y, true);
}

void LowRank::backward_b(Tensors t, Gradients g, const Scratch& scratch, ConstStored dy,
                         Stored dlow_rank) const {
  const Linear product = scratch.linear();
  product.backward_weight(rank(), out_, dy, low_rank_, g.weight, g.accumulate);
  product.backward_input(rank(), out_, dy, t.weight, dlow_rank);
  scaled_copy(c_.ctx, c_.rows * rank(), dlow_rank, scaling(), dlow_rank);
}

void LowRank::backward_a(Tensors t, Gradients g, const Scratch& scratch, ConstStored x,
                         ConstStored dlow_rank, Stored dx, bool add) const {
  const Linear product = scratch.linear();
  product.backward_weight(in_, rank(), dlow_rank, x, g.weight, g.accumulate);
  if (c_.b.input_gradient) product.backward_input(in_, rank(), dlow_rank, t.weight, dx, add);
}

}  // namespace shardmark
