// SPDX-License-Identifier: Apache-2.0
// A predicted step in the form of a traced one, so that the drawings and traces of runs also show
// predictions.
#pragma once

#include <core/plan/price/price.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

/// The events of `priced`, a price of `program`, in nanoseconds from the start of the step. Buffers
/// that are held are not part of it.
StepTrace predicted_trace(const Program& program, const PricedStep& priced);

}  // namespace shardmark
