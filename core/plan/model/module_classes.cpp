// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/module_classes.hpp>

namespace shardmark {
namespace {

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
    if (wanted.contains(class_of(model.modules[m], model.spec)))
      for (int id : model.params_of(static_cast<int>(m))) found[id] = true;
  return found;
}

}  // namespace shardmark
