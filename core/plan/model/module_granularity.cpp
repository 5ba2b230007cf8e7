// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <core/plan/model/module_granularity.hpp>

namespace shardmark {
namespace {

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

}  // namespace shardmark
