// SPDX-License-Identifier: Apache-2.0
// How finely a model is divided into modules, as ZeRO-3 measures it to gather fine modules whole.
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// The granularity of each module, in elements: its parameters divided by one plus the modules
/// below it that have parameters. It is the largest integer for modules without children, for those
/// above 1e9 elements, and for torch's own containers, which a list must give by their class.
/// Source: DeepSpeed 0.19.8's runtime/zero/parameter_offload.py, _get_granularity_recursively.
std::vector<std::int64_t> granularities(const ModelShape& model);

}  // namespace shardmark
