// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/partition/muon_groups.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

bool named_like_embedding_or_head(const Param& param) {
  const std::string name = lower_case(param.name);
  return name.find("embed") != std::string::npos || name.find("lm_head") != std::string::npos;
}

void mark_matrices(ModelShape& model) {
  for (Param& p : model.params)
    p.hidden_matrix = p.shape.size() >= 2 && !named_like_embedding_or_head(p);
  for (const Module& m : model.modules) {
    const bool outer = m.role == Role::token_embedding || m.role == Role::position_embedding ||
                       m.role == Role::head;
    for (int id = m.first_param; outer && id < m.first_param + m.param_count; ++id)
      model.params[id].hidden_matrix = false;
  }
}

}  // namespace

void divide_for_muon(ModelShape& model, const std::string& path) {
  mark_matrices(model);
  std::vector<std::vector<int>> groups;
  for (const std::vector<int>& group : model.param_groups) {
    std::vector<int> matrices, rest;
    for (int id : group) (model.params[id].hidden_matrix ? matrices : rest).push_back(id);
    for (int id : matrices) {
      const Param& p = model.params[id];
      if (p.shape.size() > 2)
        throw DeckError(
            fmt::format("{}: model.modules: {} has {} dimensions: Muon of more than two is not "
                        "modelled yet: use \"AdamW\" as deepspeed.optimizer.type",
                        path, p.name, p.shape.size()));
    }
    std::ranges::stable_sort(
        matrices, [&](int a, int b) { return model.params[a].shape > model.params[b].shape; });
    for (std::vector<int>* half : {&matrices, &rest})
      if (!half->empty()) groups.push_back(std::move(*half));
  }
  model.param_groups = std::move(groups);
}

}  // namespace shardmark
