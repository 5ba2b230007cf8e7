// SPDX-License-Identifier: Apache-2.0
// The kernels that all models share: clearing and converting states, moving gradients and gathered
// parameters, accumulating gradients, the overflow flag, the global norm, the update of states.
#pragma once

#include <cstdint>
#include <span>

#include <core/nn/kernels/context.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/updates.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/models/event_model.hpp>

namespace shardmark {

/// Runs `event` if its kernel is one of these; returns false if the kernel belongs to the model.
bool run_state_kernel(const Context& context, const Program& program, const Event& event,
                      std::span<const Bound> operands, const ClipRule& clipping);

/// Updates the fp32 states of `event`, with the hyperparameters of `spec` in update number `step`,
/// which is counted from 1. Gradients are divided by the loss scale `unscale`.
void update_states(const Context& context, const Program& program, const Event& event,
                   const OptimizerSpec& spec, std::int64_t step, double unscale,
                   std::span<const Bound> operands);

/// The hyperparameters of Adam or AdamW in update number `step`, counted from 1, at the rate `lr`.
AdamWStep adamw_step(const OptimizerSpec& spec, double lr, std::int64_t step);

/// Makes Muon's update of the matrix of `event`, an event of Kernel::orthogonalize.
void orthogonalize(const Context& context, const Program& program, const Event& event,
                   const OptimizerSpec& spec, std::span<const Bound> operands);

}  // namespace shardmark
