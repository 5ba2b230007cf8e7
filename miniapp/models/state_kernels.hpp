// SPDX-License-Identifier: Apache-2.0
// The kernels that every model shares: clearing and converting states, moving gradients and
// gathered parameters about, adding gradients up, the overflow flag, the global norm.
#pragma once

#include <core/nn/kernels/context.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

/// Runs `event` if it is one of them; false when it is the model's own.
bool run_state_kernel(const Context& context, const Program& program, const Event& event,
                      std::span<const Bound> operands, double gradient_clipping, double loss_scale);

}  // namespace shardmark
