// SPDX-License-Identifier: Apache-2.0
// The work of the factors of an adapter, in the order of core/nn/models/block.cpp.
#include <core/plan/work/module_work.hpp>

namespace shardmark {

void ModuleWork::factor_forward() {
  const Role product = module_.adapts;
  if (role_ == Role::lora_a) {
    linear_forward(factor_shape(), d_.dtype);
    return scale_low_rank();
  }
  linear_forward(factor_shape(), d_.dtype, true);
  arrange_product(product, false);
  if (ends_sublayer(product) && !decoder_.norms_after()) stream("residual", rows_ * h_, 1, 3);
}

void ModuleWork::factor_backward() {
  const Role product = module_.adapts;
  if (role_ == Role::lora_b) {
    if (ends_sublayer(product) && !decoder_.norms_after()) scale_gradient();
    arrange_product(product, true);
    linear_weight(factor_shape(), accumulate_);
    linear_input(factor_shape(), d_.dtype);
    return scale_low_rank();
  }
  if (product == Role::mlp_proj) activation(false);
  linear_weight(factor_shape(), accumulate_);
  if (module_.input_gradient)
    linear_input(factor_shape(), gradient_type(d_, flow_of(decoder_, product).reads),
                 !begins_input_gradient(decoder_, product));
}

LinearShape ModuleWork::factor_shape() const {
  const Width width = product_width(d_, module_.adapts);
  const std::int64_t rank = d_.low_rank[module_.adapts].rank;
  return role_ == Role::lora_a ? LinearShape{rows_, width.in, rank}
                               : LinearShape{rows_, rank, width.out};
}

void ModuleWork::scale_low_rank() {
  stream("scaled_copy", rows_ * d_.low_rank[module_.adapts].rank, 1, 2);
}

}  // namespace shardmark
