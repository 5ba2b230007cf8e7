// SPDX-License-Identifier: Apache-2.0
// Which modules run backward. Where parameters are frozen, values have no gradient before the first
// parameter that is trained, and torch then builds no graph.
#include <algorithm>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
namespace {

// Follows the values of a decoder through its modules in the order of their calls.
class GradientNeeds {
 public:
  GradientNeeds(ModelShape& shape, bool of_embedding)
      : shape_(shape), d_(*decoder_of(shape.spec)), of_embedding_(of_embedding) {}

  void mark() {
    struct Call {
      int order;
      Module* module;
      BareCall* bare;  // of a module without parameters
    };
    std::vector<Call> calls;
    for (Module& m : shape_.modules) {
      if (m.role != Role::container) calls.push_back({m.order, &m, nullptr});
      if (m.bare != Bare::constant)
        for (BareCall& c : m.calls) calls.push_back({c.order, &m, &c});
    }
    std::ranges::stable_sort(calls, [](const Call& a, const Call& b) { return a.order < b.order; });
    int unit = -1;
    for (const Call& call : calls) {
      if (call.bare != nullptr) {
        call.bare->gradient = call.module->adapts == Role::container ? output(call.bare->after)
                                                                     : input(call.module->adapts);
        continue;
      }
      if (call.module->unit != unit) begin_unit();
      unit = call.module->unit;
      mark(*call.module);
    }
  }

 private:
  void begin_unit() {
    in_ = out_;
    hidden_ = false;
  }
  bool trains(const Module& m) const {
    const auto first = shape_.params.begin() + m.first_param;
    return std::any_of(first, first + m.param_count, [](const Param& p) { return p.trained(); });
  }
  void mark(Module& m) {
    if (m.role == Role::lora_b) {  // A is trained
      pass_on(m.adapts, true);
      return;
    }
    const bool embeds = m.role == Role::token_embedding || m.role == Role::position_embedding;
    if (m.role == Role::sinks) {
      m.output_gradient = trains(m);
      return;
    }
    m.input_gradient = !embeds && input(m.role == Role::lora_a ? m.adapts : m.role);
    if (m.role == Role::lora_a) return;
    const bool hooked = m.role == Role::token_embedding && of_embedding_;
    m.output_gradient = m.input_gradient || hooked || trains(m);
    pass_on(m.role, m.output_gradient);
  }
  bool mlp_input() const {
    if (!d_.norms_before()) return middle_;
    return d_.block.kind == BlockKind::parallel ? norm1_ : norm2_;
  }
  bool input(Role role) const {
    constexpr RoleSet of_block{Role::qkv, Role::q, Role::k, Role::v, Role::q_a, Role::kv_a};
    if (of_block.contains(role)) return d_.norms_before() ? norm1_ : in_;
    switch (role) {
      case Role::q_a_norm:
      case Role::q_b:
      case Role::q_norm: return q_;
      case Role::kv_a_norm:
      case Role::kv_b:
      case Role::k_norm: return k_;
      case Role::attn_proj: return q_ || k_ || v_;
      case Role::post_norm1:
      case Role::post_norm2: return sublayer_;
      case Role::norm2: return d_.parallel() ? in_ : middle_;
      case Role::mlp_proj:
      case Role::shared_down: return hidden_;
      case Role::embedding_norm:
      case Role::head: return out_;
      case Role::norm1:
      case Role::final_norm: return in_;
      default: return mlp_input();
    }
  }
  // The value that a module makes, or the first one of several.
  bool& made_by(Role role) {
    constexpr RoleSet ends{Role::token_embedding, Role::position_embedding, Role::embedding_norm,
                           Role::final_norm};
    constexpr RoleSet queries{Role::qkv,      Role::q,   Role::q_a,
                              Role::q_a_norm, Role::q_b, Role::q_norm};
    if (ends.contains(role)) return out_;
    if (queries.contains(role)) return q_;
    if (keys_and_values.contains(role) || role == Role::k || role == Role::k_norm) return k_;
    if (role == Role::v) return v_;
    if (role == Role::norm1) return norm1_;
    if (role == Role::norm2) return norm2_;
    return of_attention.contains(role) || of_mlp.contains(role) ? sublayer_ : hidden_;
  }
  // Whether what follows a module has a gradient.
  bool output(Role role) { return role == Role::router ? mlp_input() : made_by(role); }
  // Sets what a module makes. Others have made a part of the stream before the positions, and of
  // what is inside the MLP.
  void pass_on(Role role, bool gradient) {
    bool& value = made_by(role);
    const bool adds = role == Role::position_embedding || &value == &hidden_;
    value = gradient || (adds && value);
    if (role == Role::qkv) k_ = v_ = gradient;
    if (keys_and_values.contains(role)) v_ = gradient;
    if (of_attention.contains(role)) middle_ = in_ || gradient;
    if (of_mlp.contains(role)) out_ = middle_ || gradient;
  }

  // The products of latent attention that make keys and values at once.
  static constexpr RoleSet keys_and_values{Role::kv_a, Role::kv_a_norm, Role::kv_b};
  // What makes the output of attention, and of the MLP.
  static constexpr RoleSet of_attention{Role::attn_proj, Role::post_norm1};
  static constexpr RoleSet of_mlp{Role::mlp_proj, Role::experts, Role::shared_router,
                                  Role::post_norm2};
  ModelShape& shape_;
  const Decoder& d_;
  const bool of_embedding_;
  // Whether these values have a gradient: the residual stream into a unit, out of it and between
  // attention and MLP, the outputs of the norms, q, k and v, the output of attention or of the MLP,
  // and what is inside the MLP.
  bool in_ = false, out_ = false, middle_ = false, norm1_ = false, norm2_ = false;
  bool q_ = false, k_ = false, v_ = false, sublayer_ = false, hidden_ = false;
};

}  // namespace

void mark_gradients(ModelShape& shape, bool recompute) {
  if (decoder_of(shape.spec)->adapted()) GradientNeeds(shape, recompute).mark();
}

void mark_passes(ModelShape& shape) {
  // Marks the first module of each unit.
  const auto mark = [&](const std::vector<int>& modules, bool Module::*flag) {
    int unit = -1;
    for (const int m : modules) {
      Module& module = shape.modules[static_cast<std::size_t>(m)];
      if (module.unit != unit) module.*flag = true;
      unit = module.unit;
    }
  };
  std::vector<int> forward = shape.computing(VisitKind::pre_forward);
  mark(forward, &Module::begins_forward);
  std::ranges::reverse(forward);
  mark(forward, &Module::ends_forward);
  mark(shape.computing(VisitKind::pre_backward), &Module::begins_backward);
}

}  // namespace shardmark
