// SPDX-License-Identifier: Apache-2.0
// What stage 3's hooks see of a pass, unless a recording says it.
#include <algorithm>
#include <utility>

#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
namespace {

// Visits follow the nesting of containers: in forward in pre- and post-order, and in backward in
// the mirror image of that. The root and modules whose input is integers have no post-backward
// hook. Activation checkpointing is torch's (not re-entrant, with early stop): the first module
// whose backward needs a saved tensor runs its block forward again, up to itself. The re-entrant
// kind runs the whole block forward again before the backward of what is inside. Both run what is
// inside of the block, as transformers does, so that the block's own hooks see one forward; in
// transformers 5.6, which AutoEP needs, they see the second one as well.
class VisitWriter {
 public:
  VisitWriter(ModelShape& shape, bool recompute)
      : shape_(shape),
        recompute_(recompute),
        whole_blocks_(std::ranges::any_of(shape.modules, &Module::exchanged)),
        children_(shape.modules.size()),
        expected_(shape.modules.size()) {
    std::vector<int> order(shape.modules.size());
    for (std::size_t m = shape.modules.size(); m-- > 1;) {
      const Module& module = shape.modules[m];
      // The module that has sinks is around attention, so what is inside says when it is called.
      if (module.role != Role::container && (module.role != Role::sinks || order[m] == 0))
        order[m] = module.order;
      if (!module.calls.empty()) order[m] = module.calls.front().order;
      int& around = order[static_cast<std::size_t>(module.parent)];
      if (order[m] != 0 && (around == 0 || order[m] < around)) around = order[m];
    }
    for (std::size_t m = 1; m < shape.modules.size(); ++m) {
      const Module& module = shape.modules[m];
      if (!module.called || unused(static_cast<int>(m))) continue;
      std::vector<Call>& siblings = children_[caller_of(m)];
      if (module.calls.empty()) siblings.push_back({static_cast<int>(m), order[m], true});
      for (const BareCall& c : module.calls)
        siblings.push_back({static_cast<int>(m), c.order, c.gradient});
    }
    for (std::vector<Call>& siblings : children_)
      std::ranges::stable_sort(siblings,
                               [&](const Call& a, const Call& b) { return a.order < b.order; });
  }
  void write() {
    forward({0, 0, true});
    backward({0, 0, true});
  }

 private:
  struct Call {
    int module, order;
    bool gradient;  // of a module without parameters
  };

  // Whether the module's parameters are all unused, so that no forward pass runs it.
  bool unused(int module) const {
    const std::vector<int> params = shape_.params_of(module);
    return !params.empty() && std::ranges::all_of(params, [&](int id) {
      return shape_.params[id].use == ParamUse::unused;
    });
  }
  // The nearest container that is called itself.
  std::size_t caller_of(std::size_t module) const {
    int parent = shape_.modules[module].parent;
    while (!shape_.modules[parent].called) parent = shape_.modules[parent].parent;
    return static_cast<std::size_t>(parent);
  }
  // Whether the output of a call has a gradient: that of a call inside.
  bool has_backward(const Call& call) const {
    const Module& module = shape_.modules[call.module];
    const std::vector<Call>& inside = children_[call.module];
    if (!module.calls.empty()) return call.gradient;
    if (inside.empty()) return module.output_gradient;
    return std::ranges::any_of(inside, [&](const Call& child) { return has_backward(child); });
  }
  // Whether its input has one, without which there is no post-backward hook: integers have none.
  bool has_input_gradient(const Call& call) const {
    const Module& module = shape_.modules[call.module];
    const std::vector<Call>& inside = children_[call.module];
    if (!module.calls.empty()) return call.gradient;
    if (inside.empty()) return module.input_gradient;
    return has_input_gradient(inside.front());
  }
  // Whether the backward of a module needs a tensor that its forward saved. What is around a
  // mixture multiplies the shared expert's output by its factor, and the rows that divided experts
  // send back by their weights.
  bool needs_saved(int m) const {
    const Module& module = shape_.modules[m];
    return module.role != Role::container || module.bare == Bare::function ||
           std::ranges::any_of(children_[m], [&](const Call& child) {
             const Module& part = shape_.modules[child.module];
             return part.role == Role::shared_router || part.exchanged;
           });
  }
  void visit(VisitKind kind, int module) { shape_.visits.push_back({kind, module}); }
  // Writes visits until the module of `last`, if it is given, computes, and returns whether it did.
  bool forward(const Call& call, const Call* last = nullptr) {
    visit(VisitKind::pre_forward, call.module);
    expected_[call.module] = has_input_gradient(call) ? 1 : 0;
    if (forward_inside(call, last)) return true;
    if (last != nullptr && call.module == last->module && call.order == last->order) return true;
    visit(VisitKind::post_forward, call.module);
    return false;
  }
  bool forward_inside(const Call& call, const Call* last = nullptr) {
    const std::vector<Call>& inside = children_[call.module];
    return std::ranges::any_of(inside, [&](const Call& child) { return forward(child, last); });
  }
  void backward(const Call& call) {
    if (!has_backward(call)) return;
    visit(VisitKind::pre_backward, call.module);
    if (recompute_ && shape_.modules[call.module].block) {
      if (shape_.reentrant)
        forward_inside(call);
      else
        block_ = &call;
    }
    if (block_ != nullptr && needs_saved(call.module)) {
      const Call& block = *std::exchange(block_, nullptr);
      whole_blocks_ ? forward(block, &call) : forward_inside(block, &call);
    }
    const std::vector<Call>& inside = children_[call.module];
    for (auto child = inside.rbegin(); child != inside.rend(); ++child) backward(*child);
    // DeepSpeed counts the gradients that are missing, from the module's latest call on. So a
    // module that is called twice has one hook, and a second one if it has run again in between.
    if (call.module != 0 && has_input_gradient(call) && --expected_[call.module] == 0)
      visit(VisitKind::post_backward, call.module);
  }

  ModelShape& shape_;
  const bool recompute_;
  const bool whole_blocks_;
  const Call* block_ = nullptr;  // must run forward again before its backward continues
  std::vector<std::vector<Call>> children_;
  std::vector<int> expected_;  // by module: gradients of its input that are still missing
};

}  // namespace

void write_visits(ModelShape& shape, bool recompute) {
  VisitWriter(shape, recompute).write();
}

}  // namespace shardmark
