// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's wall_clock_breakdown: the time of a step by part, in the lines that DeepSpeed prints.
#pragma once

#include <string>

#include <core/plan/plan.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

/// The lines of rank 0 for one traced step, in DeepSpeed's order. Each micro-batch has
/// `fwd_microstep`, `bwd_microstep` (the sum of the next two), `bwd_inner_microstep` (until the
/// last module's backward, with the reductions that hooks start), `bwd_allreduce_microstep`
/// (reductions after that) and `step_microstep` (norm, update, gathering; only in the last
/// micro-batch). Their sums over the step follow. Before the last of these lines come those of the
/// optimizer, where DeepSpeed prints them: gathering, gradients and update at stages 1 and 2, the
/// update at stage 3.
std::string wall_clock_lines(const Program& program, const StepTrace& trace);

}  // namespace shardmark
