// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>

#include <core/plan/paper/paper_gradients.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

ShardGroups cut_states(Program& program, const Deck& deck) {
  const ShardGroups groups = add_shard_groups(program, deck);
  program.partition = build_partition(program.model, program.shard_ranks, program.stage);
  return groups;
}

}  // namespace

PaperGradients::PaperGradients(Program& program, const Deck& deck, const Profile& profile)
    : p_(program),
      w_(program),
      compute_(program, w_, deck, profile),
      profile_(profile),
      groups_(cut_states(program, deck)),
      slots_(declare_paper_slots(w_, p_, profile, groups_)) {}

std::vector<int> PaperGradients::params_of(int u) const {
  std::vector<int> ids(unit(u).param_count);
  std::iota(ids.begin(), ids.end(), unit(u).first_param);
  return ids;
}

Event& PaperGradients::collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                                  std::span<const int> params, int group) {
  Event& e = write_collective(w_, p_, profile_, slots_.staging, op, reduction, send, receive,
                              params, -1, group);
  e.unit = u;
  return e;
}

// A parameter's place in its unit's flat buffer `slot`.
Operand PaperGradients::tensor(int slot, int param, bool reads, bool writes) const {
  const Param& p = p_.model.params[param];
  return {slot, writes, reads, p.first_elem - unit(p.unit).first_elem, p.elems};
}

std::vector<Operand> PaperGradients::full_params(int module) const {
  std::vector<Operand> operands;
  for (int id : p_.model.params_of(module)) {
    const UnitSlots& s = slots_.units[p_.model.params[id].unit];
    operands.push_back(tensor(stage() == 3 ? s.gathered : s.param, id, true, false));
  }
  return operands;
}

// Where backward writes the unit's whole gradient.
int PaperGradients::full_grad(int u) const {
  const UnitSlots& s = slots_.units[u];
  return s.bucket != no_slot ? s.bucket : s.grad;
}

void PaperGradients::begin_gradients(bool first, bool last) {
  first_ = first;
  last_ = last;
}

void PaperGradients::begin_backward() {
  in_flight_ = among_replicas_ = no_unit;
  made_.clear();
}

// What has no bucket adds up over micro-batches in place; else each micro-batch's gradient is made
// anew. A tied weight's second user adds to what the first one made.
void PaperGradients::backward(int module) {
  std::vector<Operand> grads;
  for (int id : p_.model.params_of(module)) {
    const int u = p_.model.params[id].unit;
    acquire_full_grad(u);
    const bool in_place = slots_.units[u].bucket == no_slot && !first_;
    const bool adds = in_place || !made_.insert(id).second;
    grads.push_back(tensor(full_grad(u), id, adds, true));
  }
  compute_.backward(module, full_params(module), grads);
}

// Padding is reduced and squared with the rest, so it must be zero.
void PaperGradients::acquire_full_grad(int u) {
  const int slot = full_grad(u);
  if (w_.alive(slot)) return;
  w_.acquire(slot);
  const UnitPartition& part = p_.partition.units[u];
  if (part.padded > part.elems)
    w_.compute(Kernel::zero, {w_.part(slot, part.elems, part.padded - part.elems, false, true)});
}

// Where a reduction delivers this rank's share, or all at stage 0.
Operand PaperGradients::reduced(int u) const {
  const UnitSlots& s = slots_.units[u];
  if (stage() == 0) return w_.write(full_grad(u));
  if (stage() == 1) return own(full_grad(u), u, false, true);
  return w_.write(shares_in_part() ? s.part : s.grad);
}

void PaperGradients::reduce_gradient(int u) {
  if (stage() < 2 && slots_.units[u].bucket != no_slot) add_micro_batch(u);
  if (stage() < 2 && !last_) return;
  const Operand into = reduced(u);
  if (stage() >= 2) w_.acquire(into.slot);
  const Operand full = w_.read(full_grad(u));
  if (shares())
    collective(Op::reduce_scatter, Reduction::average, full, into, u, params_of(u), groups_.shard);
  else
    collective(Op::all_reduce, Reduction::average, full, into, u, params_of(u), 0);
  advance();
  in_flight_ = u;
}

// The second level starts when the next unit's first one has: by then its own is done or nearly so,
// and nothing is computed meanwhile that must wait for it.
void PaperGradients::advance() {
  if (among_replicas_ != no_unit) retire(among_replicas_);
  among_replicas_ = no_unit;
  const int u = std::exchange(in_flight_, no_unit);
  if (u == no_unit) return;
  if (!shares() || groups_.replicas == no_group) return retire(u);
  Operand share = reduced(u);
  collective(Op::all_reduce, Reduction::average, share, share, u, params_of(u), groups_.replicas);
  if (stage() >= 2) w_.release(slots_.units[u].bucket);
  among_replicas_ = u;
}

void PaperGradients::retire_reductions() {
  advance();
  advance();
}

// Stage 1 with a sum in another type than the gradients'.
void PaperGradients::add_micro_batch(int u) {
  const UnitSlots& s = slots_.units[u];
  if (first_) w_.acquire(s.grad);
  add(w_.whole(s.grad, !first_, true), w_.read(s.bucket), u);
  if (last_)
    w_.compute(Kernel::convert, {w_.write(s.bucket), w_.read(s.grad)}).unit = u;
  else
    w_.release(s.bucket);
}

// The first micro-batch overwrites, the others add.
void PaperGradients::add(Operand into, Operand from, int u) {
  w_.compute(first_ ? Kernel::convert : Kernel::accumulate, {into, from}).unit = u;
}

void PaperGradients::retire(int u) {
  const UnitSlots& s = slots_.units[u];
  if (s.bucket == no_slot) return;
  if (stage() == 1) {
    w_.compute(Kernel::convert, {own(s.grad, u, false, true), own(s.bucket, u, true, false)}).unit =
        u;
  } else if (shares_in_part()) {
    if (first_) w_.acquire(s.grad);
    add(w_.whole(s.grad, !first_, true), w_.read(s.part), u);
    w_.release(s.part);
  }
  if (w_.alive(s.bucket)) w_.release(s.bucket);
}

Operand PaperGradients::owned_grad(int u) const {
  return stage() == 1 ? own(slots_.units[u].grad, u, true, false) : w_.read(slots_.units[u].grad);
}

}  // namespace shardmark
