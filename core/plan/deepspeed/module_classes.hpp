// SPDX-License-Identifier: Apache-2.0
// The Python classes of modules, by which DeepSpeed's torch_autocast decides whose parameters and
// gradients are sent in 16 bits.
//
// Source: DeepSpeed 0.19.8's runtime/torch_autocast.py, init_autocast_params.
#pragma once

#include <string>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Returns by parameter whether one of the modules that use it has exactly one of the classes; a
/// subclass does not count. Of the families with arithmetic, products are torch.nn.Linear, and
/// embeddings and norms are what torch.nn calls them.
std::vector<bool> params_of_classes(const ModelShape& model,
                                    const std::vector<std::string>& classes);

}  // namespace shardmark
