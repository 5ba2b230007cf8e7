// SPDX-License-Identifier: Apache-2.0
// The norms of a decoder as modules.
#pragma once

#include <core/nn/layers/norm.hpp>
#include <core/nn/models/module_call.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

// A norm whose figures are saved at these places.
inline Norm norm_of(const ModuleCall& c, std::int64_t rows, std::int64_t columns, NormSaved at) {
  return {c.ctx, c.decoder.norm, rows, columns, c.saved_fp32(at.mean), c.saved_fp32(at.rstd)};
}
inline void norm_forward(const Norm& norm, Tensors t, ConstStored x, Stored y) {
  norm.forward(t.weight, t.bias, x, y);
}
inline void norm_backward(const Norm& norm, Tensors t, Gradients g, ConstStored x, ConstStored dy,
                          Stored dx, bool add, std::span<std::byte> scratch) {
  norm.gradients(t.weight, x, dy, dx, add, g.weight, g.bias, g.accumulate, scratch);
}

}  // namespace shardmark
