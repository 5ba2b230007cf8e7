// SPDX-License-Identifier: Apache-2.0
// The products of experts whose rows are sorted by expert, one expert after another.
#pragma once

#include <vector>

#include <core/nn/models/module_call.hpp>
#include <core/read_back.hpp>

namespace shardmark {

/// Copies `count` integers from a kernel's memory.
inline std::vector<std::int32_t> on_host(const Context& ctx, const std::int32_t* values,
                                         std::int64_t count) {
  std::vector<std::int32_t> copies(static_cast<std::size_t>(count));
  copy_to_host(ctx.space, copies.data(), values, copies.size() * sizeof copies[0]);
  return copies;
}

/// Calls `f(expert, first row, rows, product)`, also for experts without rows. `starts` has the
/// first row of each expert and, at its end, the number of rows.
template<class F>
void for_each_expert(const ModuleCall& c, const Scratch& scratch,
                     const std::vector<std::int32_t>& starts, const F& f) {
  for (std::size_t e = 0; e + 1 < starts.size(); ++e) {
    const std::int64_t first = starts[e], rows = starts[e + 1] - first;
    f(static_cast<std::int64_t>(e), first, rows,
      Linear(c.ctx, rows, scratch.gemm(), c.decoder.moe.in_out));
  }
}

/// The gradient of one expert's weight, which lies among those of `all` experts. `all` is null if
/// the weights are frozen. An expert without rows has a gradient of zeros.
inline void expert_weight_backward(const ModuleCall& c, const Linear& product, std::int64_t in,
                                   std::int64_t out, std::int64_t rows, ConstStored dy,
                                   ConstStored x, Stored all, std::int64_t expert,
                                   bool accumulate) {
  if (all.data == nullptr) return;
  const Stored to = all.at(expert * in * out);
  if (rows > 0)
    product.backward_weight(in, out, dy, x, to, accumulate);
  else if (!accumulate)
    clear(c.ctx, in * out * dtype_bytes(to.dtype), to.data);
}

}  // namespace shardmark
