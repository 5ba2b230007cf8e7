// SPDX-License-Identifier: Apache-2.0
// Which modules autograd reaches: where a gradient enters a module from its output, and where it
// leaves through its inputs. PyTorch hangs the hooks of its data parallelism on these tensors.
#pragma once

#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// By module.
struct GradientFlow {
  std::vector<bool> visited;  // in forward
  std::vector<bool> inputs;   // some input needs a gradient
  std::vector<bool> outputs;  // the output needs a gradient
  std::vector<bool> needs;    // by parameter: requires_grad

  /// The parameters that need a gradient, in registration order.
  std::vector<int> needing() const;
};

/// Follows the gradients of `model`, in which the parameters of `frozen` (names of parameters, or
/// of modules that hold them) need none, and sets Param::use. Throws DeckError, which starts
/// with `key`, if a name is unknown or nothing is left to train.
GradientFlow follow_gradients(ModelShape& model, const std::vector<std::string>& frozen,
                              const std::string& key);

/// The module called `name`. Throws DeckError, which starts with `key`, if there is none.
int module_named(const ModelShape& model, const std::string& name, const std::string& key);

/// Whether `module` is `container` or lies in it.
bool lies_in(const ModelShape& model, int module, int container);

}  // namespace shardmark
