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

/// One expert of a layer: its rows are `count` rows from row `first` on, of which its products are.
struct ExpertRows {
  std::int64_t expert, first, count;
  Linear product;
};

/// Calls `f(ExpertRows)` for each expert, also for those without rows. `starts` has the first row
/// of each expert and, at its end, the number of rows.
template<class F>
void for_each_expert(const ModuleCall& c, const Scratch& scratch,
                     const std::vector<std::int32_t>& starts, const F& f) {
  for (std::size_t e = 0; e + 1 < starts.size(); ++e) {
    const std::int64_t first = starts[e], count = starts[e + 1] - first;
    f(ExpertRows{static_cast<std::int64_t>(e), first, count,
                 Linear(c.ctx, count, scratch.gemm(), c.decoder.moe.in_out)});
  }
}
/// Calls `f(ExpertRows)` for each expert that has rows.
template<class F>
void for_each_used_expert(const ModuleCall& c, const Scratch& scratch,
                          const std::vector<std::int32_t>& starts, const F& f) {
  for_each_expert(c, scratch, starts, [&](const ExpertRows& e) {
    if (e.count > 0) f(e);
  });
}

/// The gradient of an expert's weight, which lies among those of `all` experts, from the first of
/// its rows of dy and x. `all` is null if the weights are frozen. An expert without rows has a
/// gradient of zeros.
inline void expert_weight_backward(const ModuleCall& c, const ExpertRows& e, std::int64_t in,
                                   std::int64_t out, ConstStored dy, ConstStored x, Stored all) {
  if (all.data == nullptr) return;
  e.product.backward_weight(in, out, dy.at(e.first * out), x.at(e.first * in),
                            all.at(e.expert * in * out), c.g.accumulate);
}

}  // namespace shardmark
