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
    m.unit = role == Role::container ? -1 : unit_;
    m.role = role;
    m.order = static_cast<int>(shape_.modules.size());
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
    Param p{std::move(name), elems, shape_.elems, unit_, init, std_dev, std::move(shape)};
    Unit& u = current_unit();
    if (u.param_count == 0) {
      u.first_param = static_cast<int>(shape_.params.size());
      u.first_elem = shape_.elems;
    }
    shape_.elems = checked_add(shape_.elems, elems, "model: parameters");
    u.elems += elems;
    ++u.param_count;
    ++last().param_count;
    shape_.params.push_back(std::move(p));
  }
  void unit(std::string name, UnitKind kind) {
    shape_.units.push_back({.name = std::move(name), .kind = kind, .also_reads = {}});
    unit_ = static_cast<int>(shape_.units.size()) - 1;
  }
  // What is added from here on belongs to the unit, which exists.
  void select_unit(int unit) { unit_ = unit; }
  Module& last() { return shape_.modules.back(); }
  Unit& current_unit() { return shape_.units[unit_]; }
  ModelShape& shape() { return shape_; }

 private:
  ModelShape shape_;
  int unit_ = -1;
};

/// The shape of a decoder. Throws PlanError for counts beyond 63 bits.
ModelShape build_decoder(const ModelSpec& spec);

/// The shape of a `list`. Throws DeckError if its modules do not nest, or if none has parameters.
ModelShape build_list(const ModelSpec& spec);

/// Notes which modules of a decoder have gradients of their outputs and inputs. With activation
/// checkpointing, `recompute`, an adapter lets the embedding's output have one, as PEFT does.
void mark_gradients(ModelShape& shape, bool recompute);

/// Notes which modules begin and end a pass through their unit, once there are visits.
void mark_passes(ModelShape& shape);

/// Fills `shape.visits` by the nesting of containers; `recompute` as for build_model_shape.
void write_visits(ModelShape& shape, bool recompute);

}  // namespace shardmark
