// SPDX-License-Identifier: Apache-2.0
#include <core/nn/elementwise.hpp>
#include <core/nn/grad_norm.hpp>
#include <miniapp/state_kernels.hpp>

namespace shardmark {

bool run_state_kernel(const Context& context, const Program& program, const Event& event,
                      std::span<const Bound> ops, double gradient_clipping) {
  const bool exact = program.reductions == Reductions::ordered;
  switch (event.kernel) {
    case Kernel::zero: fill_zero(context, ops[0].elems, ops[0].as<float>()); return true;
    case Kernel::accumulate:
      accumulate(context, ops[0].elems, ops[0].as<float>(), ops[1].as<float>());
      return true;
    case Kernel::grad_norm:
      for (std::size_t i = 1; i < ops.size(); ++i) {
        const bool first = i == 1;
        if (exact)
          sum_squares_exact(context, ops[i].elems, ops[i].as<float>(), ops[0].as<std::int64_t>(),
                            first);
        else
          sum_squares(context, ops[i].elems, ops[i].as<float>(), ops[0].as<double>(), first);
      }
      return true;
    case Kernel::clip:
      if (exact)
        clip_from_limbs(context, ops[1].as<std::int64_t>(), gradient_clipping, ops[0].as<double>());
      else
        clip_from_sum(context, ops[1].as<double>(), gradient_clipping, ops[0].as<double>());
      return true;
    default: return false;
  }
}

}  // namespace shardmark
