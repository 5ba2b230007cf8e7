// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/torch/gradient_flow.hpp>

namespace shardmark {
namespace {

bool needs_no_gradient(const ModelShape& model, int param, int module,
                       const std::vector<std::string>& frozen) {
  return std::ranges::any_of(frozen, [&](const std::string& name) {
    if (model.params[param].name == name) return true;
    for (int m = module;; m = model.modules[m].parent) {
      if (model.modules[m].name == name) return true;
      if (m == 0) return false;
    }
  });
}

bool names_something(const ModelShape& model, const std::string& name) {
  const auto named = [&](const auto& x) { return x.name == name; };
  return std::ranges::any_of(model.params, named) || std::ranges::any_of(model.modules, named);
}

// A list does not say which of its modules are fed with data, which needs no gradient. The first
// module is. So are modules of a single tensor that come before all others, as embeddings do.
std::vector<bool> fed_with_data(const ModelShape& model) {
  std::vector<bool> fed(model.modules.size());
  if (model.spec.family != Family::list || !model.spec.visits.empty()) return fed;
  const std::vector<int> order = model.computing(VisitKind::pre_forward);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Module& m = model.modules[order[i]];
    if (i > 0 && (m.param_count != 1 || m.parent != 0)) break;
    fed[order[i]] = true;
    if (m.param_count != 1) break;
  }
  // A container whose first module is fed with data is fed with data, too.
  if (!order.empty())
    for (int m = model.modules[order[0]].parent; m != 0; m = model.modules[m].parent) fed[m] = true;
  return fed;
}

}  // namespace

std::vector<int> GradientFlow::needing() const {
  std::vector<int> ids;
  for (std::size_t id = 0; id < needs.size(); ++id)
    if (needs[id]) ids.push_back(static_cast<int>(id));
  return ids;
}

int module_named(const ModelShape& model, const std::string& name, const std::string& key) {
  for (std::size_t m = 0; m < model.modules.size(); ++m)
    if (model.modules[m].name == name) return static_cast<int>(m);
  throw DeckError(
      fmt::format("{} = \"{}\": no module has this name: give the name of a module of "
                  "the model, for example \"{}\", or \"\" for the root",
                  key, name, model.modules.size() > 1 ? model.modules[1].name : ""));
}

bool lies_in(const ModelShape& model, int module, int container) {
  for (; module != container; module = model.modules[module].parent)
    if (module == 0) return false;
  return true;
}

GradientFlow follow_gradients(ModelShape& model, const std::vector<std::string>& frozen,
                              const std::string& key) {
  for (const std::string& name : frozen)
    if (!names_something(model, name))
      throw DeckError(fmt::format("{} = \"{}\": no module or parameter has this name", key, name));
  const std::size_t count = model.modules.size();
  GradientFlow flow{std::vector<bool>(count), std::vector<bool>(count), std::vector<bool>(count),
                    std::vector<bool>(model.params.size())};
  std::vector<bool>& needs = flow.needs;
  std::vector<bool> backward(count);
  for (std::size_t m = 0; m < count; ++m)
    for (int i = 0; i < model.modules[m].param_count; ++i) {
      const int id = model.modules[m].first_param + i;
      needs[id] = model.params[id].use != ParamUse::frozen &&
                  !needs_no_gradient(model, id, static_cast<int>(m), frozen);
    }
  const std::vector<bool> data = fed_with_data(model);
  std::vector<bool> passes_on(count);
  for (const Visit& v : model.visits)
    if (v.kind == VisitKind::post_backward) passes_on[v.module] = !data[v.module];
  bool stream = false, in_backward = false;
  for (const Visit& v : model.visits) {
    const int m = v.module;
    if (v.kind == VisitKind::pre_backward) in_backward = backward[m] = true;
    if (in_backward) continue;
    if (v.kind == VisitKind::pre_forward) {
      flow.visited[m] = true;
      flow.inputs[m] = passes_on[m] && stream;
      const std::vector<int> own = model.params_of(m);
      flow.outputs[m] =
          flow.inputs[m] || std::ranges::any_of(own, [&](int id) { return needs[id]; });
      stream = stream || flow.outputs[m];
    } else {
      // The output of a container is that of what it holds.
      for (std::size_t inner = 0; inner < count && !flow.outputs[m]; ++inner)
        flow.outputs[m] = flow.visited[inner] && flow.outputs[inner] &&
                          model.modules[inner].parent == m && static_cast<int>(inner) != m;
    }
  }
  for (std::size_t id = 0; id < needs.size(); ++id)
    model.params[id].use = needs[id] ? ParamUse::unused : ParamUse::frozen;
  for (std::size_t m = 0; m < count; ++m)
    if (flow.visited[m] && backward[m])
      for (const int id : model.params_of(static_cast<int>(m)))
        if (needs[id]) model.params[id].use = ParamUse::trained;
  if (std::ranges::none_of(model.params, [](const Param& p) { return p.trained(); }))
    throw DeckError(key + ": leaves no parameter to train: name fewer");
  return flow;
}

}  // namespace shardmark
