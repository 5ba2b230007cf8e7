// SPDX-License-Identifier: Apache-2.0
// Models of family `list`: the deck names the modules, and the dots in their names give containers.
#include <algorithm>
#include <map>
#include <span>

#include <core/error.hpp>
#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
namespace {

bool inside(const std::string& name, const std::string& container) {
  return name.size() > container.size() + 1 && name.compare(0, container.size(), container) == 0 &&
         name[container.size()] == '.';
}

// The listed container with the longest name that `name` extends; the root if there is none.
int parent_of(const std::map<std::string, int>& index, const std::string& name) {
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1))
    if (auto it = index.find(name.substr(0, dot)); it != index.end()) return it->second;
  return 0;
}

// Adds the modules, parameters and units of a list one after another.
class ListBuilder {
 public:
  explicit ListBuilder(const ModelSpec& s)
      : spec_(s), b_(s), owner_of_(s.tied.begin(), s.tied.end()) {}

  ModelShape build() {
    for (const ListModule& m : spec_.modules) add(m);
    if (b_.shape().units.empty())
      throw DeckError("model.modules: no module has parameters: list at least one");
    mark_uses();
    map_visits();
    return std::move(b_.shape());
  }

 private:
  void add(const ListModule& m) {
    if (m.name.empty()) {  // the root exists already, but it may have parameters of its own
      index_of_.push_back(0);
      if (m.numels.empty()) return;
      b_.unit("root", UnitKind::list);
      Module& root = b_.shape().modules[0];
      root.first_param = static_cast<int>(b_.shape().params.size());
      root.role = Role::list;
      root.unit = static_cast<int>(b_.shape().units.size()) - 1;
      root.python_class = m.python_class;
      add_params("root", m);
      return;
    }
    open_unit(m);
    index_of_.push_back(static_cast<int>(b_.shape().modules.size()));
    const int parent = parent_of(by_name_, m.name);
    if (auto tie = owner_of_.find(m.name); tie != owner_of_.end())
      add_alias(m, tie->second, parent);
    else {
      b_.module(m.name, m.numels.empty() ? Role::container : Role::list, parent);
      b_.last().block = m.numels.empty() && parent == 0;
      add_params(m.name, m);
    }
    by_name_[m.name] = index_of_.back();
    b_.last().python_class = m.python_class;
  }

  // The units of a list are the outermost containers with all that they hold, and all other
  // modules, if they have parameters of their own: an empty container or a single alias has nothing
  // to shard.
  void open_unit(const ListModule& m) {
    if (!container_.empty() && inside(m.name, container_)) return;
    for (const std::string& closed : containers_)
      if (inside(m.name, closed))
        throw DeckError("model.modules: " + m.name + ": listed away from its container " + closed +
                        ": list what a container holds right after it");
    container_ = m.numels.empty() ? m.name : std::string{};
    if (!container_.empty()) containers_.push_back(container_);
    // What a container holds follows it.
    const auto rest = std::span(spec_.modules).subspan(&m - spec_.modules.data());
    const auto end = std::find_if(rest.begin() + 1, rest.end(), [&](const ListModule& of) {
      return container_.empty() || !inside(of.name, container_);
    });
    if (std::any_of(rest.begin(), end, [&](const ListModule& of) {
          return !of.numels.empty() && !owner_of_.contains(of.name);
        }))
      b_.unit(m.name, UnitKind::list);
    else
      b_.select_unit(-1);
  }

  void add_params(const std::string& name, const ListModule& m) {
    const int module = m.name.empty() ? 0 : static_cast<int>(b_.shape().modules.size()) - 1;
    for (std::size_t i = 0; i < m.numels.size(); ++i)
      b_.param(name + "." + std::to_string(i),
               m.shapes.empty() ? std::vector{m.numels[i]} : m.shapes[i], Init::uniform);
    b_.shape().modules[module].param_count = static_cast<int>(m.numels.size());
  }

  void add_alias(const ListModule& m, const std::string& owner_name, int parent) {
    const auto owner =
        std::find_if(b_.shape().modules.begin(), b_.shape().modules.end(),
                     [&](const Module& o) { return o.name == owner_name && o.param_count > 0; });
    if (owner == b_.shape().modules.end())
      throw DeckError("model.tied: " + owner_name +
                      ": no module of that name with parameters is listed before " + m.name);
    const int owner_unit = b_.shape().params[owner->first_param].unit;
    b_.alias(m.name, Role::list, parent, owner->first_param, owner->param_count);
    const int unit = b_.last().unit;
    if (unit >= 0 && unit != owner_unit) b_.current_unit().also_reads.push_back(owner_unit);
  }

  // A list that gives the order of its gradients leaves out those that no backward makes.
  void mark_uses() {
    std::vector<Param>& params = b_.shape().params;
    if (!spec_.gradient_ready_order.empty()) {
      for (Param& p : params) p.use = ParamUse::unused;
      for (int id : spec_.gradient_ready_order) params[id].use = ParamUse::trained;
    }
    for (int id : spec_.frozen) params[id].use = ParamUse::frozen;
  }

  void map_visits() {
    for (Visit v : spec_.visits) {
      v.module = v.module == root_module ? 0 : index_of_[v.module];
      b_.shape().visits.push_back(v);
    }
    b_.shape().param_groups = spec_.param_groups;
  }

  const ModelSpec& spec_;
  ShapeBuilder b_;
  std::map<std::string, std::string> owner_of_;
  std::map<std::string, int> by_name_;
  std::vector<int> index_of_;  // in the shape, by module of the list
  std::string container_;      // the outermost one that is open now
  std::vector<std::string> containers_;
};

}  // namespace

ModelShape build_list(const ModelSpec& spec) {
  return ListBuilder(spec).build();
}

}  // namespace shardmark
