// SPDX-License-Identifier: Apache-2.0
// Leaf modules of stage 3: DeepSpeed gathers and drops all parameters that lie in such a module at
// the module's own hooks, and reduces their gradients once its backward has ended, in registration
// order. The modules inside have no hooks.
//
// Source: DeepSpeed 0.19's utils/z3_leaf_module.py, runtime/zero/parameter_offload.py and
// stage3.py.
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// By module: the outermost leaf that it lies in, which may be itself, or -1. Throws DeckError for
/// a leaf whose backward has no end that a hook sees, because it is fed integers or keywords, or
/// is the model.
std::vector<int> leaves_of(const ModelShape& model, const LeafModules& named);

/// The granularity of each module, in elements: its parameters divided by one plus the modules
/// below it that have parameters. It is the largest integer for modules without children, for those
/// above 1e9 elements, and for torch's own containers, which a list must give by their class.
/// Source: DeepSpeed 0.19.8's runtime/zero/parameter_offload.py, _get_granularity_recursively.
std::vector<std::int64_t> granularities(const ModelShape& model);

/// By module: the parameters that it uses itself.
std::vector<std::vector<int>> params_by_module(const ModelShape& model);
/// By module: those with all that lie in it, in registration order, each once.
std::vector<std::vector<int>> params_inside(const ModelShape& model);

}  // namespace shardmark
