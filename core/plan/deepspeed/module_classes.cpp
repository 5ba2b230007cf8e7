// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/deepspeed/module_classes.hpp>

namespace shardmark {
namespace {

// The name under which torch.nn exports a class: that of "torch.nn.modules.linear.Linear" is
// "torch.nn.Linear".
std::string exported_class(const std::string& name) {
  return name.starts_with("torch.nn.modules.") ? "torch.nn" + name.substr(name.rfind('.')) : name;
}

// Norms and Conv1D of transformers are classes of their own; the others are torch's.
std::string class_of(const Module& module, const ModelSpec& spec) {
  if (!module.python_class.empty()) return exported_class(module.python_class);
  const bool own = spec.family == Family::decoder;
  if (module.role == Role::router) return {};  // a class of its own
  if (is_linear(module.role))
    return own && spec.decoder->in_out && module.role != Role::head ? "" : "torch.nn.Linear";
  switch (module.role) {
    case Role::token_embedding:
    case Role::position_embedding: return "torch.nn.Embedding";
    case Role::norm1:
    case Role::norm2:
    case Role::final_norm:
    case Role::embedding_norm:
      if (decoder_of(spec)->norm.kind == NormKind::layer) return "torch.nn.LayerNorm";
      return own ? "" : "torch.nn.RMSNorm";
    default: return {};
  }
}

}  // namespace

std::vector<bool> params_of_classes(const ModelShape& model,
                                    const std::vector<std::string>& classes) {
  std::set<std::string> wanted;
  for (const std::string& name : classes) wanted.insert(exported_class(name));
  std::vector<bool> found(model.params.size());
  for (std::size_t m = 0; m < model.modules.size(); ++m)
    if (wanted.contains(class_of(model.modules[m], model.spec)))
      for (int id : model.params_of(static_cast<int>(m))) found[id] = true;
  return found;
}

}  // namespace shardmark
