// SPDX-License-Identifier: Apache-2.0
// How finely a model is divided into modules, as ZeRO-3 measures it to gather fine modules whole.
#pragma once

#include <cstdint>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Returns the smallest granularity of a module, in elements: its parameters divided by one plus
/// the modules below it that have parameters. Modules without children and those above 1e9 elements
/// do not count, nor do torch's own containers, which are known by their class alone; a list that
/// does not give it may thus get a smaller figure. Returns the largest integer if no module counts.
/// Source: DeepSpeed 0.19.8's runtime/zero/parameter_offload.py, _get_granularity_recursively.
std::int64_t smallest_granularity(const ModelShape& model);

}  // namespace shardmark
