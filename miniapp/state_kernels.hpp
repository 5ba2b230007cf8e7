// SPDX-License-Identifier: Apache-2.0
// The kernels that every model shares: clearing states, adding gradients up, the global norm.
#pragma once

#include <core/nn/context.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/model.hpp>

namespace shardmark {

/// Runs zero, accumulate, grad_norm or clip; false when the kernel is another one.
bool run_state_kernel(const Context& context, const Program& program, const Event& event,
                      std::span<const Bound> operands, double gradient_clipping);

}  // namespace shardmark
