// SPDX-License-Identifier: Apache-2.0
// The tools to build model shapes, and what model_shape.cpp calls for each family.
#pragma once

#include <string>

#include <core/plan/deck/checked.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Appends modules, parameters and units in registration order; keeps the running counts.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(const ModelSpec& spec) {
    shape_.spec = spec;
    shape_.modules.push_back({});  // the root
  }

  int module(std::string name, Role role, int parent) {
    Module m;
    m.name = std::move(name);
    m.first_param = static_cast<int>(shape_.params.size());
    m.parent = parent;
    m.unit = role == Role::container ? -1 : static_cast<int>(shape_.units.size()) - 1;
    m.role = role;
    shape_.modules.push_back(std::move(m));
    return static_cast<int>(shape_.modules.size()) - 1;
  }
  void alias(std::string name, Role role, int parent, int owner_param, int count) {
    Module& m = shape_.modules[module(std::move(name), role, parent)];
    m.tied_to = owner_param;
    m.tied_count = count;
  }
  void param(std::string name, std::vector<std::int64_t> shape, Init init, double std_dev = 0.02) {
    std::int64_t elems = 1;
    for (std::int64_t size : shape) elems = checked_mul(elems, size, "model: " + name);
    Param p{std::move(name),
            elems,
            shape_.elems,
            static_cast<int>(shape_.units.size()) - 1,
            init,
            std_dev,
            std::move(shape)};
    shape_.elems = checked_add(shape_.elems, elems, "model: parameters");
    Unit& u = shape_.units.back();
    u.elems += elems;
    ++u.param_count;
    ++shape_.modules.back().param_count;
    shape_.params.push_back(std::move(p));
  }
  void unit(std::string name, UnitKind kind) {
    shape_.units.push_back(
        {std::move(name), kind, static_cast<int>(shape_.params.size()), 0, 0, shape_.elems, {}});
  }
  // A module of one weight [out, in] and a bias [out].
  void linear(const std::string& name, Role role, int parent, std::int64_t out, std::int64_t in,
              double std_dev, bool bias = true) {
    module(name, role, parent);
    param(name + ".weight", {out, in}, Init::uniform, std_dev);
    if (bias) param(name + ".bias", {out}, Init::zeros);
  }
  void norm(const std::string& name, Role role, int parent, std::int64_t hidden, bool bias = true) {
    module(name, role, parent);
    param(name + ".weight", {hidden}, Init::ones);
    if (bias) param(name + ".bias", {hidden}, Init::zeros);
  }
  // The head has a weight of its own or uses that of the token embedding.
  void head(const std::string& name, const ModelSpec& s, double std_dev) {
    if (s.tied_head) {
      alias(name, Role::head, 0, 0, 1);
      shape_.units.back().also_reads.push_back(0);
    } else {
      linear(name, Role::head, 0, s.vocab, s.hidden, std_dev, false);
    }
  }
  ModelShape& shape() { return shape_; }

 private:
  ModelShape shape_;
};

/// The shape of a `list`. Throws DeckError if its modules do not nest, or if none has parameters.
ModelShape build_list(const ModelSpec& spec);

/// Fills `shape.visits` by the nesting of containers; `recompute` as for build_model_shape.
void write_visits(ModelShape& shape, bool recompute);

}  // namespace shardmark
