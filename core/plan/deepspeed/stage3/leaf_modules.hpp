// SPDX-License-Identifier: Apache-2.0
// Leaf modules of stage 3: DeepSpeed gathers and drops all parameters that lie in such a module at
// the module's own hooks, and reduces their gradients once its backward has ended, in registration
// order. The modules inside have no hooks.
//
// Source: DeepSpeed 0.19's utils/z3_leaf_module.py, runtime/zero/parameter_offload.py and
// stage3.py.
#pragma once

#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// By module: the outermost leaf that it lies in, which may be itself, or -1. Throws DeckError for
/// a leaf whose backward has no end that a hook sees, because it is fed integers or keywords, or
/// is the model.
std::vector<int> leaves_of(const ModelShape& model, const LeafModules& named);

/// By module: the parameters that it uses itself.
std::vector<std::vector<int>> params_by_module(const ModelShape& model);
/// By module: those with all that lie in it, in registration order, each once.
std::vector<std::vector<int>> params_inside(const ModelShape& model);

}  // namespace shardmark
