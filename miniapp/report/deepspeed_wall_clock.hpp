// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's wall_clock_breakdown: where the time of a step went, in the lines that it prints.
#pragma once

#include <string>

#include <core/plan/plan.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

/// The lines of rank 0 for one traced step, in DeepSpeed's order. Micro-batch by micro-batch
/// `fwd_microstep`, `bwd_microstep` (its two parts together), `bwd_inner_microstep` (to the last
/// module's backward, reductions that hooks start among it), `bwd_allreduce_microstep` (what is
/// reduced after that) and `step_microstep` (of the last micro-batch: norm, update, gathering);
/// then their sums over the step. Before the last of these lines the optimizer's own, where
/// DeepSpeed has them: at stages 1 and 2 gathering, gradients and update, at stage 3 the update.
std::string wall_clock_lines(const Program& program, const StepTrace& trace);

}  // namespace shardmark
