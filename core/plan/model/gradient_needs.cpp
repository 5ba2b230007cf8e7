// SPDX-License-Identifier: Apache-2.0
// Which modules run backward. Where parameters are frozen, values have no gradient before the first
// parameter that is trained, and torch then builds no graph.
#include <algorithm>
#include <span>

#include <core/plan/model/block_sizes.hpp>
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
    const bool stream = has_[Value::out];
    has_ = {};
    has_[Value::in] = stream;
  }
  bool trains(const Module& m) const {
    const std::span all(shape_.params);
    return std::ranges::any_of(all.subspan(m.first_param, m.param_count), &Param::trained);
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
  bool input(Role role) const { return has_[flow_of(d_, role).reads]; }
  // What is inside the MLP counts as one value.
  Value made_by(Role role) const {
    const Value made = flow_of(d_, role).makes;
    return made == Value::gate || made == Value::up ? Value::act : made;
  }
  // Whether what follows a module has a gradient.
  bool output(Role role) const { return role == Role::router ? input(role) : has_[made_by(role)]; }
  // Sets what a module makes, and what that is a part of.
  void pass_on(Role role, bool gradient) {
    const Value made = made_by(role);
    // Others have made a part of the stream before the positions, and of what is inside the MLP.
    const bool adds = role == Role::position_embedding || made == Value::act;
    has_[made] = gradient || (adds && has_[made]);
    if (made > Value::norm1 && made < Value::attention) has_[Value::attention] |= gradient;
    if (made == Value::attn_out || made == Value::mid)
      has_[Value::mid] = has_[Value::in] || gradient;
    if (made == Value::mlp_out || made == Value::out)
      has_[Value::out] = has_[Value::mid] || has_[made];
  }

  ModelShape& shape_;
  const Decoder& d_;
  const bool of_embedding_;
  EnumArray<Value, bool> has_{};  // whether the values of the unit at hand have a gradient
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
