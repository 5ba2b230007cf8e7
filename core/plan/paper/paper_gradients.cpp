// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <core/plan/paper/paper_gradients.hpp>

namespace shardmark {

// Where backward writes the unit's whole gradient.
int PaperGradients::full_grad(int u) const {
  const UnitSlots& s = slots_of(u);
  return s.bucket != no_slot ? s.bucket : s.grad;
}

void PaperGradients::begin_backward(const MicroBatch& micro) {
  micro_ = micro;
  in_flight_ = among_replicas_ = no_unit;
  begun_.clear();
}

// Without a bucket gradients add up over micro-batches in place; otherwise each micro-batch makes
// its gradient anew. The second module that uses a tied weight adds to what the first one made.
void PaperGradients::backward(int module) {
  std::vector<Operand> grads;
  for (int id : p_.model.params_of(module)) {
    const int u = p_.model.params[id].unit;
    acquire_full_grad(u);
    const bool in_place = slots_of(u).bucket == no_slot && !micro_.first;
    const bool adds = in_place || !begun_.insert(id).second;
    grads.push_back(c_.tensor(full_grad(u), id, adds, true));
  }
  c_.compute.backward(
      module, [&](int id) { return c_.full_param(id); }, grads);
}

// Padding is reduced and squared with the gradient, so it must be zero.
void PaperGradients::acquire_full_grad(int u) {
  const int slot = full_grad(u);
  if (w_.alive(slot)) return;
  w_.acquire(slot);
  const UnitPartition& part = p_.partition.units[u];
  if (part.padded > part.elems)
    w_.compute(Kernel::zero, {w_.write(slot, part.elems, part.padded - part.elems)});
}

// Where a reduction delivers this rank's share, or the whole gradient at stage 0.
Operand PaperGradients::reduced(int u) const {
  const UnitSlots& s = slots_of(u);
  if (stage() == 0) return w_.write(full_grad(u));
  if (stage() == 1) return c_.own(full_grad(u), u, false, true);
  return w_.write(reduces_into_part() ? s.part : s.grad);
}

void PaperGradients::reduce(int u) {
  if (stage() < 2 && slots_of(u).bucket != no_slot) add_micro_batch(u);
  if (stage() < 2 && !micro_.last) return;
  const Operand into = reduced(u);
  if (stage() >= 2) w_.acquire(into.slot);
  const Operand full = w_.read(full_grad(u));
  if (c_.shares())
    c_.collective(Op::reduce_scatter, Reduction::average, full, into, u, c_.params_of(u),
                  c_.groups.shard);
  else
    c_.collective(Op::all_reduce, Reduction::average, full, into, u, c_.params_of(u), 0);
  advance();
  in_flight_ = u;
}

// A unit's reduction among replicas starts once the next unit's first reduction has started. By
// then its own first reduction is done or nearly so, and no computation waits for it.
void PaperGradients::advance() {
  if (among_replicas_ != no_unit) retire(among_replicas_);
  among_replicas_ = no_unit;
  const int u = std::exchange(in_flight_, no_unit);
  if (u == no_unit) return;
  if (!c_.shares() || c_.groups.replicas == no_group) return retire(u);
  Operand share = reduced(u);
  c_.collective(Op::all_reduce, Reduction::average, share, share, u, c_.params_of(u),
                c_.groups.replicas);
  if (stage() >= 2) w_.release(slots_of(u).bucket);
  among_replicas_ = u;
}

void PaperGradients::finish() {
  advance();
  advance();
}

// Stage 1 with a sum in another type than that of the gradients.
void PaperGradients::add_micro_batch(int u) {
  const UnitSlots& s = slots_of(u);
  if (micro_.first) w_.acquire(s.grad);
  w_.store(w_.write(s.grad), w_.read(s.bucket), !micro_.first).unit = u;
  if (micro_.last)
    w_.convert(w_.write(s.bucket), w_.read(s.grad)).unit = u;
  else
    w_.release(s.bucket);
}

void PaperGradients::retire(int u) {
  const UnitSlots& s = slots_of(u);
  if (s.bucket == no_slot) return;
  if (stage() == 1) {
    w_.convert(c_.own(s.grad, u, false, true), c_.own(s.bucket, u, true, false)).unit = u;
  } else if (reduces_into_part()) {
    if (micro_.first) w_.acquire(s.grad);
    w_.store(w_.write(s.grad), w_.read(s.part), !micro_.first).unit = u;
    w_.release(s.part);
  }
  if (w_.alive(s.bucket)) w_.release(s.bucket);
}

Operand PaperGradients::owned(int u) const {
  return stage() == 1 ? c_.own(slots_of(u).grad, u, true, false) : w_.read(slots_of(u).grad);
}

}  // namespace shardmark
