// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <core/error.hpp>
#include <core/plan/deepspeed/stage3/leaf_modules.hpp>

namespace shardmark {
namespace {

bool is_leaf(const Module& module, const LeafModules& named) {
  const auto any = [](const std::vector<std::string>& list, const auto& matches) {
    return std::ranges::any_of(list, matches);
  };
  const auto is_class = [&](const std::string& c) {
    return !module.python_class.empty() && LeafModules::means(c, module.python_class);
  };
  return any(named.classes, is_class) ||
         any(named.names, [&](const std::string& n) { return n == module.name; }) ||
         any(named.name_suffixes, [&](const std::string& s) { return module.name.ends_with(s); });
}

bool is_attention(const ModelShape& model, int module) {
  return !model.modules[static_cast<std::size_t>(module)].block &&
         std::ranges::any_of(model.modules, [&](const Module& m) {
           return m.role == Role::attn_proj && m.parent == module;
         });
}

// DeepSpeed reduces the gradients of a leaf, and drops it, when the gradient of an input is there.
void require_backward(const ModelShape& model, int leaf, const std::string& key) {
  const auto ends = [&](const Visit& v) {
    return v.kind == VisitKind::post_backward && v.module == leaf;
  };
  const bool seen = std::ranges::any_of(model.visits, ends);
  if (seen && !is_attention(model, leaf)) return;
  const std::string& name = model.modules[static_cast<std::size_t>(leaf)].name;
  throw DeckError("deepspeed.zero_optimization." + key + ": " +
                  (name.empty() ? "the model itself" : name) + ": must not be a leaf: " +
                  (seen ? "its inputs are keywords, which DeepSpeed's hooks do not see"
                        : "its input has no gradient") +
                  ", and DeepSpeed reduces the gradients of a leaf and drops it when the gradient "
                  "of an input is there: name other modules");
}

constexpr std::int64_t most_elems = 1'000'000'000;  // a larger module is never gathered whole

bool is_container(const Module& module) {
  constexpr std::array<std::string_view, 6> containers{
      "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"};
  const std::string_view name = module.python_class;
  if (!module.called) return true;
  if (!name.starts_with("torch.nn.")) return false;
  return std::ranges::find(containers, name.substr(name.rfind('.') + 1)) != containers.end();
}

// What lies in a module, itself included: tied parameters count in each module that has them.
struct Content {
  std::int64_t elems = 0;
  std::int64_t modules = 0;  // those with parameters
  bool has_children = false;
};

}  // namespace

std::vector<std::int64_t> granularities(const ModelShape& model) {
  std::vector<std::int64_t> all(model.modules.size(), std::numeric_limits<std::int64_t>::max());
  std::vector<Content> contents(model.modules.size());
  // Children come after their parents.
  for (std::size_t m = model.modules.size(); m-- > 0;) {
    const Module& module = model.modules[m];
    Content& own = contents[m];
    for (const int id : model.params_of(static_cast<int>(m))) own.elems += model.params[id].elems;
    if (own.elems == 0) continue;
    const bool counts = !own.has_children || !is_container(module);
    if (counts) ++own.modules;
    if (own.has_children && counts && own.elems <= most_elems) all[m] = own.elems / own.modules;
    if (m == 0) break;
    Content& parent = contents[static_cast<std::size_t>(module.parent)];
    parent.elems += own.elems;
    parent.modules += own.modules;
    parent.has_children = true;
  }
  return all;
}

std::vector<int> leaves_of(const ModelShape& model, const LeafModules& named) {
  std::vector<int> leaves(model.modules.size(), -1);
  std::vector<std::int64_t> granularity;  // by module; empty without a threshold
  if (named.granularity > 0) granularity = granularities(model);
  // Children come after their parents.
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    const Module& module = model.modules[m];
    const int outer = m == 0 ? -1 : leaves[static_cast<std::size_t>(module.parent)];
    const bool given = is_leaf(module, named);
    const bool fine = !granularity.empty() && granularity[m] <= named.granularity;
    leaves[m] = outer >= 0 ? outer : given || fine ? static_cast<int>(m) : -1;
    if (leaves[m] == static_cast<int>(m))
      require_backward(model, leaves[m], given ? "leaf_module" : "module_granularity_threshold");
  }
  return leaves;
}

std::vector<std::vector<int>> params_by_module(const ModelShape& model) {
  std::vector<std::vector<int>> params;
  for (int m = 0; m < static_cast<int>(model.modules.size()); ++m) {
    params.push_back(model.params_of(m));
    const int read = model.modules[static_cast<std::size_t>(m)].reads_param;
    if (read >= 0) params.back().push_back(read);
  }
  return params;
}

std::vector<std::vector<int>> params_inside(const ModelShape& model) {
  std::vector<std::vector<int>> inside = params_by_module(model);
  for (std::size_t m = inside.size(); m-- > 1;) {
    std::vector<int>& outer = inside[static_cast<std::size_t>(model.modules[m].parent)];
    outer.insert(outer.end(), inside[m].begin(), inside[m].end());
  }
  for (std::vector<int>& params : inside) {
    std::ranges::sort(params);
    params.erase(std::unique(params.begin(), params.end()), params.end());
  }
  return inside;
}

}  // namespace shardmark
