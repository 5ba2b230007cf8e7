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
    switch (role) {
      case Role::q:
      case Role::k:
      case Role::v:
      case Role::q_a:
      case Role::kv_a:
      case Role::qkv: return d_.norms_before() ? norm1_ : in_;
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
  // Whether what follows a module has a gradient.
  bool output(Role role) const {
    switch (role) {
      case Role::token_embedding:
      case Role::position_embedding:
      case Role::embedding_norm:
      case Role::final_norm: return out_;
      case Role::norm1: return norm1_;
      case Role::norm2: return norm2_;
      case Role::qkv:
      case Role::q:
      case Role::q_norm: return q_;
      case Role::k:
      case Role::k_norm: return k_;
      case Role::v: return v_;
      case Role::router: return mlp_input();
      case Role::attn_proj:
      case Role::mlp_proj:
      case Role::experts:
      case Role::shared_router:
      case Role::post_norm1:
      case Role::post_norm2: return sublayer_;
      default: return hidden_;
    }
  }
  // Sets the value that a module makes.
  void pass_on(Role role, bool gradient) {
    switch (role) {
      case Role::token_embedding:
      case Role::embedding_norm:
      case Role::final_norm: out_ = gradient; break;
      case Role::position_embedding: out_ = out_ || gradient; break;
      case Role::norm1: norm1_ = gradient; break;
      case Role::norm2: norm2_ = gradient; break;
      case Role::qkv: q_ = k_ = v_ = gradient; break;
      case Role::q:
      case Role::q_a:
      case Role::q_a_norm:
      case Role::q_b:
      case Role::q_norm: q_ = gradient; break;
      case Role::kv_a:
      case Role::kv_a_norm:
      case Role::kv_b: k_ = v_ = gradient; break;
      case Role::k:
      case Role::k_norm: k_ = gradient; break;
      case Role::v: v_ = gradient; break;
      case Role::attn_proj:
      case Role::post_norm1:
        sublayer_ = gradient;
        middle_ = in_ || gradient;
        break;
      case Role::mlp_proj:
      case Role::experts:
      case Role::shared_router:
      case Role::post_norm2:
        sublayer_ = gradient;
        out_ = middle_ || gradient;
        break;
      default: hidden_ = hidden_ || gradient;
    }
  }

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
