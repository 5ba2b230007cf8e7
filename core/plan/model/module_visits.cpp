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
    for (std::size_t m = 1; m < shape.modules.size(); ++m)
      if (!unused(static_cast<int>(m)))
        children_[shape.modules[m].parent].push_back(static_cast<int>(m));
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
    const Role role = shape_.modules[m].role;
    const bool checkpointed =
        recompute_ && m != 0 && shape_.modules[m].parent == 0 && role == Role::container;
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
    const bool fed_integers = role == Role::token_embedding || role == Role::position_embedding;
    if (m != 0 && !fed_integers) visit(VisitKind::post_backward, m);
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
