// SPDX-License-Identifier: Apache-2.0
// From what the ranks of a run recorded to its result.
#pragma once

#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/run/run_session.hpp>
#include <miniapp/run/trainer.hpp>

namespace shardmark {

/// Collective, after Trainer::finish(). Gathers what all ranks measured, compares it with the plan,
/// and judges. Verdict and losses are the same on all ranks; the other figures are this rank's.
Result collect_results(const RunPlan& run, RunSession& session, Trainer& trainer,
                       const Checkpoints& checkpoints, const World& world);

}  // namespace shardmark
