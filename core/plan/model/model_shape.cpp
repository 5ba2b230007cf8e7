// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
std::vector<int> ModelShape::params_of(int module) const {
  const Module& m = modules[module];
  const int first = m.tied_to >= 0 ? m.tied_to : m.first_param;
  std::vector<int> ids(m.tied_to >= 0 ? m.tied_count : m.param_count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<int> ModelShape::trained_params_of(int module) const {
  std::vector<int> ids = params_of(module);
  std::erase_if(ids, [&](int id) { return params[id].use != ParamUse::trained; });
  return ids;
}

std::vector<int> ModelShape::computed_at(const Visit& v) const {
  const bool backward = v.kind == VisitKind::pre_backward;
  if (!backward && v.kind != VisitKind::pre_forward) return {};
  const Role role = modules[v.module].role;
  if (role == Role::container || (backward && role == Role::sinks)) return {};
  std::vector<int> computed{v.module};
  if (!backward || role != Role::attn_proj) return computed;
  for (int m = modules[v.module].parent; m > 0; m = modules[m].parent)
    if (modules[m].role == Role::sinks) computed.push_back(m);
  return computed;
}

std::vector<int> ModelShape::computing(VisitKind kind) const {
  std::vector<int> order;
  const auto backward = std::ranges::find(visits, VisitKind::pre_backward, &Visit::kind);
  // What runs forward after that is a recomputation.
  const auto end = kind == VisitKind::pre_forward ? backward : visits.end();
  for (auto v = visits.begin(); v != end; ++v)
    if (v->kind == kind)
      for (const int m : computed_at(*v)) order.push_back(m);
  return order;
}

std::vector<std::vector<int>> ModelShape::recomputed_before() const {
  std::vector<std::vector<int>> again(modules.size());
  int backward = -1;  // the module whose backward is about to run, or -1
  bool in_backward = false;
  std::vector<int> waiting;  // modules that run again before the next backward
  for (const Visit& v : visits) {
    const bool computes = modules[v.module].role != Role::container;
    if (v.kind == VisitKind::pre_backward) {
      in_backward = true;
      backward = computes && !reentrant ? v.module : -1;
      if (computes) again[v.module] = std::exchange(waiting, {});
    }
    if (v.kind != VisitKind::pre_forward || !in_backward || !computes) continue;
    (backward < 0 ? waiting : again[backward]).push_back(v.module);
  }
  return again;
}

namespace {

// DeepSpeed's groups of parameters where ranks divide experts: those of the experts, in groups of a
// limited size, come after all others. Source: moe/utils.py,
// split_params_into_different_moe_groups_for_optimizer.
std::vector<std::vector<int>> groups_by_holders(const ModelShape& shape) {
  constexpr std::int64_t most = 178'956'971;
  std::vector<std::vector<int>> groups(1);
  std::int64_t elems = most;  // of the last group of experts
  for (int id = 0; id < std::ssize(shape.params); ++id) {
    const Param& p = shape.params[static_cast<std::size_t>(id)];
    if (p.holders == Holders::all) {
      groups[0].push_back(id);
      continue;
    }
    elems += p.elems;
    if (elems > most) {
      groups.emplace_back();
      elems = p.elems;
    }
    groups.back().push_back(id);
  }
  return groups;
}

}  // namespace

ModelShape build_model_shape(const ModelSpec& spec, bool recompute, bool reentrant) {
  const bool list = spec.family == Family::list;
  ModelShape shape = list ? build_list(spec) : build_decoder(spec);
  shape.recompute = recompute;
  shape.reentrant = recompute && reentrant;
  if (!list) mark_gradients(shape, recompute);
  if (shape.visits.empty()) write_visits(shape, recompute);
  if (!list) mark_passes(shape);
  if (shape.param_groups.empty()) shape.param_groups = groups_by_holders(shape);
  for (std::vector<int>& group : shape.param_groups)
    std::erase_if(group, [&](int id) { return !shape.params[id].updated(); });
  if (shape.parameters == 0) shape.parameters = shape.elems;  // no rank has a part of the model
  return shape;
}

std::vector<int> gradient_ready_order(const ModelShape& model, bool weight_first) {
  std::vector<int> order = model.spec.gradient_ready_order;
  if (!order.empty()) return order;
  if (!traits(model.spec.family).has_arithmetic) {
    order.resize(model.params.size());
    std::iota(order.rbegin(), order.rend(), 0);
    std::erase_if(order, [&](int id) { return model.params[id].use != ParamUse::trained; });
    return order;
  }
  const Decoder& d = *decoder_of(model.spec);
  for (int m : model.computing(VisitKind::pre_backward)) {
    const Module& module = model.modules[m];
    if (module.tied_to >= 0) continue;  // ready at its last use, the owner's
    std::vector<int> params = model.params_of(m);
    const bool torchs = module.role == Role::head || !(d.in_out || d.own_linear);
    const bool bias_first = is_linear(module.role) && !(weight_first && torchs);
    if (bias_first) std::ranges::reverse(params);
    // The tensors of experts' last product come before those of the first, whose gate is the very
    // last where it is a tensor of its own.
    if (module.role == Role::experts)
      std::rotate(params.begin(), params.begin() + std::ssize(params) / 2, params.end());
    for (const int id : params)
      if (model.params[id].trained()) order.push_back(id);
  }
  return order;
}

}  // namespace shardmark
