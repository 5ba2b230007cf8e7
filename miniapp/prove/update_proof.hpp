// SPDX-License-Identifier: Apache-2.0
// Proves the updates that Adam or AdamW made in one step from the parameters before it and the
// states after it: nothing but these decides what an update makes of a parameter, so the moments
// before the step are not needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <core/nn/optimizer/adamw.hpp>
#include <miniapp/prove/replay_result.hpp>

namespace shardmark {

/// Elements of one rank that one step updated.
struct UpdatedRange {
  std::int64_t first_elem = 0, elems = 0;
  const float* before = nullptr;  // the parameters before the step, in host memory
  // After the step, where kernels reach them:
  const float *master = nullptr, *momentum = nullptr, *variance = nullptr;
};

/// Makes each update again, a piece at a time, with 3 MiB of scratch. `step` is empty for a step
/// that was skipped, which changes nothing. Local; waits for the result.
UpdateSketches sketch_updates(const Context& context, std::span<const UpdatedRange> ranges,
                              const std::optional<AdamWStep>& step);

}  // namespace shardmark
