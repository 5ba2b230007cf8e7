// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <core/plan/model/linear_roles.hpp>
#include <core/plan/model/module_classes.hpp>

namespace shardmark {
namespace {

std::string class_of(const Module& module, Family family) {
  if (!module.python_class.empty()) return exported_class(module.python_class);
  if (is_linear(module.role)) return "torch.nn.Linear";
  switch (module.role) {
    case Role::token_embedding:
    case Role::position_embedding: return "torch.nn.Embedding";
    case Role::norm1:
    case Role::norm2:
    case Role::final_norm:
      return family == Family::llama ? "torch.nn.RMSNorm" : "torch.nn.LayerNorm";
    default: return {};
  }
}

}  // namespace

std::string exported_class(std::string_view name) {
  constexpr std::string_view inner = "torch.nn.modules.";
  if (!name.starts_with(inner)) return std::string(name);
  return "torch.nn" + std::string(name.substr(name.rfind('.')));
}

std::vector<bool> params_of_classes(const ModelShape& model,
                                    const std::vector<std::string>& classes) {
  std::set<std::string> wanted;
  for (const std::string& name : classes) wanted.insert(exported_class(name));
  std::vector<bool> found(model.params.size());
  for (std::size_t m = 0; m < model.modules.size(); ++m)
    if (wanted.contains(class_of(model.modules[m], model.spec.family)))
      for (int id : model.params_of(static_cast<int>(m))) found[id] = true;
  return found;
}

}  // namespace shardmark
