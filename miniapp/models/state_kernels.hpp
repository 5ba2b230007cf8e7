// SPDX-License-Identifier: Apache-2.0
// The kernels that all models share: clearing and converting states, moving gradients and gathered
// parameters, accumulating gradients, the overflow flag, the global norm.
#pragma once

#include <core/nn/kernels/context.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

/// Runs `event` if its kernel is one of these; returns false if the kernel belongs to the model.
bool run_state_kernel(const Context& context, const Program& program, const Event& event,
                      std::span<const Bound> operands, const ClipRule& clipping);

}  // namespace shardmark
