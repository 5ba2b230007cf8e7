// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <core/plan/check_gradients.hpp>
#include <core/plan/kernels.hpp>

namespace shardmark {

GradientCheck::GradientCheck(const Program& program, std::function<void(std::string)> report)
    : p_(program), report_(std::move(report)) {}

void GradientCheck::start() {
  pending_.assign(p_.model.params.size(), {});
  local_.assign(p_.slots.size(), {});
}

void GradientCheck::drop() {
  pending_.assign(pending_.size(), {});
}

void GradientCheck::follow(const Event& e) {
  follow_params(e);
  follow_values(e);
}

void GradientCheck::follow_params(const Event& e) {
  const bool makes = e.kernel == Kernel::backward;
  const bool applies = e.kernel == Kernel::adamw;
  const bool reduces = is_reduction(e.op);
  if (!makes && !applies && !reduces) return;
  for (int i = 0; i < e.params.count; ++i) {
    const std::int32_t id = p_.param_ids[e.params.first + i];
    Pending& g = pending_[id];
    const std::string& param = p_.model.params[id].name;
    if (reduces && !g.unreduced)
      report_(param + " is reduced, but nothing new was added to its gradient");
    if (applies && (g.unreduced || !g.reduced))
      report_(param + " is applied before its gradient is reduced");
    if (makes) g.unreduced = true;
    if (reduces) g = {false, true};
    if (applies) g = {};
  }
}

const Operand& GradientCheck::nth(const Event& e, std::size_t i) const {
  return p_.operands[static_cast<std::size_t>(e.operands.first) + i];
}

// Which ranges hold what only this rank summed. Copies and sums hand that on, element by element;
// a reduction's result is free of it.
void GradientCheck::follow_values(const Event& e) {
  if (e.op == Op::acquire || e.op == Op::release) return local_[e.slot].clear();
  if (is_reduction(e.op) && e.operands.count >= 2) {
    const Operand& o = nth(e, 1);
    return local_[o.slot].remove(o.offset, o.offset + o.elems);
  }
  if (e.op == Op::copy && e.operands.count == 2) return copy_values(nth(e, 1), nth(e, 0), false);
  switch (e.kernel) {
    case Kernel::backward:
      for (std::size_t i = 0; i < static_cast<std::size_t>(e.operands.count); ++i)
        if (const Operand& o = nth(e, i); o.writes)
          local_[o.slot].add(o.offset, o.offset + o.elems);
      return;
    case Kernel::zero: {
      const Operand& o = nth(e, 0);
      return local_[o.slot].remove(o.offset, o.offset + o.elems);
    }
    case Kernel::convert: return copy_values(nth(e, 0), nth(e, 1), false);
    case Kernel::accumulate:
    case Kernel::interleave: return copy_values(nth(e, 0), nth(e, 1), true);
    case Kernel::adamw: return require_reduced(e);
    default: return;
  }
}

void GradientCheck::copy_values(const Operand& into, const Operand& from, bool adds) {
  Intervals& to = local_[into.slot];
  if (!adds) to.remove(into.offset, into.offset + into.elems);
  const Intervals source = local_[from.slot];  // a copy: it may be the same slot
  if (into.elems != from.elems) {              // rank-major: scattered over the range
    if (source.touches(from.offset, from.offset + from.elems))
      to.add(into.offset, into.offset + into.elems);
    return;
  }
  const std::int64_t shift = into.offset - from.offset;
  source.for_each_in(
      from.offset, from.offset + from.elems,
      [&](std::int64_t first, std::int64_t end) { to.add(first + shift, end + shift); });
}

void GradientCheck::require_reduced(const Event& e) {
  const Operand& grad = nth(e, operand::upd_grad);
  if (local_[grad.slot].touches(grad.offset, grad.offset + grad.elems))
    report_(fmt::format("{}[{}, +{}] is applied, but holds gradients that no reduction delivered",
                        p_.slots[grad.slot].name, grad.offset, grad.elems));
}

void GradientCheck::at_exit(Gradients declared) const {
  for (std::size_t id = 0; id < pending_.size(); ++id) {
    const Pending& g = pending_[id];
    const Gradients is = g.unreduced ? Gradients::accumulated
                         : g.reduced ? Gradients::reduced
                                     : Gradients::none;
    if (is != declared)
      return report_(fmt::format("exit declares gradients {}, that of {} is {}",
                                 to_string(declared), p_.model.params[id].name, to_string(is)));
  }
}

}  // namespace shardmark
