// SPDX-License-Identifier: Apache-2.0
// The engine's own reduction, at stage 0 and for BF16_Optimizer: after the last backward of a step
// tensors are all-reduced in order, in buckets of a fixed size, one after another.
//
// Source: DeepSpeed 0.19's runtime/engine.py, buffered_allreduce_fallback and around it.
#pragma once

#include <string>
#include <vector>

#include <core/plan/deepspeed/stage_part.hpp>

namespace shardmark {

/// A tensor that the engine reduces.
struct EngineGradient {
  int slot = no_slot;
  std::vector<int> params;
  std::string suffix;  // of the name of a bucket that begins with it
};

/// Reduces the tensors, which have one type, over the ranks that hold the parameters. A bucket is
/// full once it holds more than `engine_bucket_elems` elements.
void reduce_by_engine(StageContext& context, const std::vector<EngineGradient>& gradients,
                      Holders holders = Holders::all);

}  // namespace shardmark
