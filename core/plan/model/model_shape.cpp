// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include <core/error.hpp>
#include <core/plan/model/linear_roles.hpp>
#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
namespace {

constexpr double std_dev = 0.02;

// GPT-2 has pre-LayerNorm, learned positions, and biases everywhere except in the head.
ModelShape build_gpt2(const ModelSpec& s) {
  ShapeBuilder b(s);
  const double residual_std = std_dev / std::sqrt(2.0 * static_cast<double>(s.layers));
  const std::int64_t h = s.hidden;
  const std::int64_t h4 = checked_mul(4, h, "model.hidden");

  b.unit("embed", UnitKind::embeddings);
  b.module("wte", Role::token_embedding, 0);
  b.param("wte", {s.vocab, h}, Init::uniform, std_dev);
  b.module("wpe", Role::position_embedding, 0);
  b.param("wpe", {s.sequence, h}, Init::uniform, std_dev);

  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string name = "block" + std::to_string(l);
    b.unit(name, UnitKind::block);
    const int block = b.module(name, Role::container, 0);
    b.norm(name + ".ln_1", Role::norm1, block, h);
    const int attn = b.module(name + ".attn", Role::container, block);
    b.linear(name + ".attn.qkv", Role::qkv, attn, checked_mul(3, h, "model.hidden"), h, std_dev);
    b.linear(name + ".attn.proj", Role::attn_proj, attn, h, h, residual_std);
    b.norm(name + ".ln_2", Role::norm2, block, h);
    const int mlp = b.module(name + ".mlp", Role::container, block);
    b.linear(name + ".mlp.fc", Role::fc, mlp, h4, h, std_dev);
    b.linear(name + ".mlp.proj", Role::mlp_proj, mlp, h, h4, residual_std);
  }

  b.unit("head", UnitKind::head);
  b.norm("ln_f", Role::final_norm, 0, h);
  b.head("head", s, std_dev);
  return std::move(b.shape());
}

// Llama has RMSNorm, rotary positions, grouped-query attention and SwiGLU. It has no biases, unless
// its q, k and v have them, as in Qwen2.
ModelShape build_llama(const ModelSpec& s) {
  ShapeBuilder b(s);
  const double residual_std = std_dev / std::sqrt(2.0 * static_cast<double>(s.layers));
  const std::int64_t h = s.hidden;
  const std::int64_t kv = checked_mul(s.kv_heads, h / s.heads, "model.kv_heads");

  b.unit("embed", UnitKind::embeddings);
  b.module("embed", Role::token_embedding, 0);
  b.param("embed", {s.vocab, h}, Init::uniform, std_dev);
  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string name = "block" + std::to_string(l);
    b.unit(name, UnitKind::block);
    const int block = b.module(name, Role::container, 0);
    auto linear = [&](const char* part, Role role, int parent, std::int64_t out, std::int64_t in,
                      double std, bool bias = false) {
      b.linear(name + part, role, parent, out, in, std, bias);
    };
    b.norm(name + ".input_norm", Role::norm1, block, h, false);
    const int attn = b.module(name + ".attn", Role::container, block);
    linear(".attn.q", Role::q, attn, h, h, std_dev, s.qkv_bias);
    linear(".attn.k", Role::k, attn, kv, h, std_dev, s.qkv_bias);
    linear(".attn.v", Role::v, attn, kv, h, std_dev, s.qkv_bias);
    linear(".attn.o", Role::attn_proj, attn, h, h, residual_std);
    b.norm(name + ".post_norm", Role::norm2, block, h, false);
    const int mlp = b.module(name + ".mlp", Role::container, block);
    linear(".mlp.gate", Role::gate, mlp, s.ffn, h, std_dev);
    linear(".mlp.up", Role::up, mlp, s.ffn, h, std_dev);
    linear(".mlp.down", Role::mlp_proj, mlp, h, s.ffn, residual_std);
  }
  b.unit("head", UnitKind::head);
  b.norm("norm", Role::final_norm, 0, h, false);
  b.head("head", s, std_dev);
  return std::move(b.shape());
}

ModelShape build_family(const ModelSpec& spec) {
  switch (spec.family) {
    case Family::gpt2: return build_gpt2(spec);
    case Family::llama: return build_llama(spec);
    case Family::list: return build_list(spec);
  }
  throw PlanError("model.family: no such family");
}

}  // namespace

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

std::vector<int> ModelShape::computing(VisitKind kind) const {
  std::vector<int> order;
  bool in_backward = false;
  for (const Visit& v : visits) {
    in_backward = in_backward || v.kind == VisitKind::pre_backward;
    const bool again = kind == VisitKind::pre_forward && in_backward;  // a recomputation
    if (v.kind == kind && !again && modules[v.module].role != Role::container)
      order.push_back(v.module);
  }
  return order;
}

std::vector<std::vector<int>> ModelShape::recomputed_before() const {
  std::vector<std::vector<int>> again(modules.size());
  int backward = -1;         // the module whose backward is about to run
  std::vector<int> waiting;  // modules that run again before the next backward
  for (const Visit& v : visits) {
    if (modules[v.module].role == Role::container) continue;
    if (v.kind == VisitKind::pre_backward) {
      backward = v.module;
      again[backward] = std::move(waiting);
      waiting.clear();
    }
    if (v.kind != VisitKind::pre_forward || backward < 0) continue;
    (reentrant ? waiting : again[backward]).push_back(v.module);
  }
  return again;
}

ModelShape build_model_shape(const ModelSpec& spec, bool recompute, bool reentrant) {
  ModelShape shape = build_family(spec);
  shape.recompute = recompute;
  shape.reentrant = recompute && reentrant;
  if (shape.visits.empty()) write_visits(shape, recompute);
  if (shape.param_groups.empty()) {
    shape.param_groups.emplace_back(shape.params.size());
    std::iota(shape.param_groups[0].begin(), shape.param_groups[0].end(), 0);
  }
  for (std::vector<int>& group : shape.param_groups)
    std::erase_if(group, [&](int id) { return !shape.params[id].updated(); });
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
  for (int m : model.computing(VisitKind::pre_backward)) {
    const Module& module = model.modules[m];
    if (module.tied_to >= 0) continue;  // ready at its last use, the owner's
    std::vector<int> params = model.params_of(m);
    if (is_linear(module.role) && !weight_first) std::reverse(params.begin(), params.end());
    order.insert(order.end(), params.begin(), params.end());
  }
  return order;
}

}  // namespace shardmark
