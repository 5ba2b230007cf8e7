// SPDX-License-Identifier: Apache-2.0
// What stage 3's hooks see of a pass, unless a recording says it.
#include <algorithm>

#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
namespace {

// Visits follow the nesting of containers: in forward in pre- and post-order, and in backward in
// the mirror image of that. The root and modules whose input is integers have no post-backward
// hook. Activation checkpointing is torch's (not re-entrant, with early stop): the first module
// whose backward needs a saved tensor runs its block forward again, up to itself. The re-entrant
// kind runs the whole block forward again before its backward begins.
class VisitWriter {
 public:
  VisitWriter(ModelShape& shape, bool recompute)
      : shape_(shape), recompute_(recompute), children_(shape.modules.size()) {
    std::vector<int> order(shape.modules.size());
    for (std::size_t m = shape.modules.size(); m-- > 1;) {
      const Module& module = shape.modules[m];
      if (order[m] == 0 && module.role != Role::container) order[m] = module.order;
      int& around = order[static_cast<std::size_t>(module.parent)];
      if (around == 0 || order[m] < around) around = order[m];
    }
    for (std::size_t m = 1; m < shape.modules.size(); ++m)
      if (shape.modules[m].called && !unused(static_cast<int>(m)))
        children_[caller_of(m)].push_back(static_cast<int>(m));
    for (std::vector<int>& children : children_)
      std::stable_sort(children.begin(), children.end(),
                       [&](int a, int b) { return order[a] < order[b]; });
  }
  void write() {
    forward(0);
    backward(0);
  }

 private:
  // Whether the module's parameters are all unused, so that no forward pass runs it.
  bool unused(int module) const {
    const std::vector<int> params = shape_.params_of(module);
    return !params.empty() && std::all_of(params.begin(), params.end(), [&](int id) {
      return shape_.params[id].use == ParamUse::unused;
    });
  }
  // The nearest container that is called itself.
  std::size_t caller_of(std::size_t module) const {
    int parent = shape_.modules[module].parent;
    while (!shape_.modules[parent].called) parent = shape_.modules[parent].parent;
    return static_cast<std::size_t>(parent);
  }
  // Whether the output of a module has a gradient: that of a module inside.
  bool has_backward(int module) const {
    const std::vector<int>& inside = children_[module];
    if (inside.empty()) return shape_.modules[module].output_gradient;
    return std::any_of(inside.begin(), inside.end(),
                       [&](int child) { return has_backward(child); });
  }
  // Whether its input has one, without which there is no post-backward hook: integers have none.
  bool has_input_gradient(int module) const {
    const std::vector<int>& inside = children_[module];
    if (inside.empty()) return shape_.modules[module].input_gradient;
    return has_input_gradient(inside.front());
  }
  void visit(VisitKind kind, int module) { shape_.visits.push_back({kind, module}); }
  // Writes visits up to the pre-forward hook of `last`, if it is given, and returns whether that
  // was reached.
  bool forward(int m, int last = -1) {
    visit(VisitKind::pre_forward, m);
    if (m == last) return true;
    for (int child : children_[m])
      if (forward(child, last)) return true;
    visit(VisitKind::post_forward, m);
    return false;
  }
  void backward(int m) {
    if (!has_backward(m)) return;
    const Role role = shape_.modules[m].role;
    const bool checkpointed = recompute_ && shape_.modules[m].block;
    if (checkpointed && shape_.reentrant)
      forward(m);
    else if (checkpointed)
      block_ = m;
    visit(VisitKind::pre_backward, m);
    if (block_ >= 0 && role != Role::container) {
      forward(block_, m);
      block_ = -1;
    }
    for (auto child = children_[m].rbegin(); child != children_[m].rend(); ++child)
      backward(*child);
    if (m != 0 && has_input_gradient(m)) visit(VisitKind::post_backward, m);
  }

  ModelShape& shape_;
  const bool recompute_;
  int block_ = -1;  // a block that must run forward again before its backward continues
  std::vector<std::vector<int>> children_;
};

}  // namespace

void write_visits(ModelShape& shape, bool recompute) {
  VisitWriter(shape, recompute).write();
}

}  // namespace shardmark
