// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/folded_gradients.hpp>

namespace shardmark {

void FoldedGradients::correct(int param, Operand grad) {
  if (!c_.folds()) return;
  const Param& p = c_.param(param);
  const double ranks = c_.program.mesh.tensor_ranks();
  if (p.holders == Holders::of_experts) return collectives_.divide(grad, ranks);
  if (p.slice.cuts()) return;
  const auto average = [&](Operand data) {
    data.reads = data.writes = true;
    collectives_.issue(Op::all_reduce, Reduction::sum, data, data, {}, -1, c_.program.tensor_group);
    collectives_.divide(data, ranks);
  };
  PlanWriter& w = c_.writer;
  if (w[grad.slot].dtype == Dtype::fp32) return average(grad);
  if (wires_.empty()) wires_.assign(static_cast<std::size_t>(c_.params()), no_slot);
  const int wire =
      c_.declare_once(wires_[static_cast<std::size_t>(param)], "folded." + c_.name(param),
                      Category::bucket, Dtype::fp32, c_.elems(param));
  grad.reads = true, grad.writes = false;
  w.acquire(wire);
  w.convert(w.write(wire), grad);
  average(w.update(wire));
  grad.reads = false, grad.writes = true;
  w.convert(grad, w.read(wire));
  w.release(wire);
}

}  // namespace shardmark
