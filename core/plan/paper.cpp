// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include <core/plan/paper.hpp>
#include <core/plan/paper_slots.hpp>
#include <core/plan/scratch.hpp>
#include <core/plan/writer.hpp>

namespace shardmark {
namespace {

constexpr int no_unit = -1;

class PaperWriter {
 public:
  PaperWriter(Program& program, const Deck& deck, const Profile& profile)
      : p_(program),
        w_(program),
        trains_(deck.run.compute == Compute::train),
        profile_(profile),
        slots_(declare_paper_slots(w_, p_, trains_, profile)) {}

  void write() {
    init();
    const std::int64_t accumulation = p_.batch.accumulation;
    if (accumulation == 1) {
      micro(SegmentKind::micro_only, 0);
    } else {
      micro(SegmentKind::micro_first, 0);
      if (accumulation > 2) micro(SegmentKind::micro_middle, 1);
      micro(SegmentKind::micro_last, static_cast<int>(accumulation - 1));
    }
    boundary();
    update();
  }

 private:
  int stage() const { return p_.stage; }
  int units() const { return static_cast<int>(p_.model.units.size()); }
  const Unit& unit(int u) const { return p_.model.units[u]; }
  // Without training there are no activations: every unit is a list of parameters.
  UnitKind kind(int u) const { return trains_ ? unit(u).kind : UnitKind::list; }

  std::vector<int> params_of(int u) const {
    std::vector<int> ids(unit(u).param_count);
    std::iota(ids.begin(), ids.end(), unit(u).first_param);
    return ids;
  }

  // This rank's own part of a buffer that holds the whole unit.
  Operand own(int slot, int u, bool reads, bool writes) const {
    return {slot, writes, reads, p_.partition.offset(u, p_.rank), p_.partition.units[u].shard};
  }

  void collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                  std::span<const int> params) {
    send.reads = true, send.writes = false;
    receive.writes = true, receive.reads = false;
    const std::int64_t elems = std::max(send.elems, receive.elems);
    std::vector<Operand> operands{send, receive};
    const std::int64_t scratch = collective_scratch_bytes(
        op, w_[send.slot].dtype, elems, p_.world, p_.reductions, profile_.staging_cap_bytes);
    if (scratch > 0) operands.push_back({slots_.staging, true, false, 0, scratch});
    w_.collective(op, reduction, elems, operands, u, params);
  }

  void init() {
    w_.begin(SegmentKind::init, Gradients::none);
    w_.phase(Phase::init);
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_.units[u];
      w_.acquire(s.param);
      const Operand param = w_.write(s.param);
      w_.compute(Kernel::init_param, u, {&param, 1}, params_of(u));
      for (int state : {s.momentum, s.variance}) {
        w_.acquire(state);
        const Operand all = w_.write(state);
        w_.compute(Kernel::zero, u, {&all, 1});
      }
    }
    for (int persistent : {slots_.sum, slots_.clip, slots_.loss, slots_.staging})
      if (persistent != no_slot) w_.acquire(persistent);
    w_.end(Gradients::none);
  }

  void micro(SegmentKind segment, int g) {
    first_ = g == 0;
    last_ = g == p_.batch.accumulation - 1;
    const Gradients pending = stage() >= 2 ? Gradients::reduced : Gradients::accumulated;
    w_.begin(segment, first_ ? Gradients::none : pending);
    w_.phase(Phase::forward, g);
    if (trains_) {
      w_.acquire(slots_.tokens);
      const Operand tokens = w_.write(slots_.tokens);
      w_.compute(Kernel::load_batch, no_unit, {&tokens, 1});
    }
    std::vector<int> order(units());
    std::iota(order.begin(), order.end(), 0);
    pass(order, [&](int u) { forward(u); });

    w_.phase(Phase::backward, g);
    std::reverse(order.begin(), order.end());
    in_flight_ = no_unit;
    pass(order, [&](int u) {
      backward(u);
      reduce_gradient(u);
    });
    retire_reduction();
    if (trains_) w_.release(slots_.tokens);
    w_.end(last_ ? Gradients::reduced : pending);
  }

  // Runs `compute` over the units. At stage 3 each pass gathers a unit once: one compute ahead of
  // its first use; it is dropped right after its last.
  template<class Compute>
  void pass(const std::vector<int>& order, Compute compute) {
    const int n = static_cast<int>(order.size());
    auto needs = [&](int j) {
      std::vector<int> all = unit(order[j]).also_reads;
      all.push_back(order[j]);
      return all;
    };
    std::vector<int> last_use(units(), -1);
    for (int j = 0; j < n; ++j)
      for (int u : needs(j)) last_use[u] = j;
    for (int j = 0; j < n; ++j) {
      if (stage() == 3)
        for (int ahead = j; ahead <= std::min(j + 1, n - 1); ++ahead)
          for (int u : needs(ahead)) gather(u);
      compute(order[j]);
      if (stage() == 3)
        for (int u : needs(j))
          if (last_use[u] == j) w_.release(slots_.units[u].gathered);
    }
  }

  void gather(int u) {
    const UnitSlots& s = slots_.units[u];
    if (w_.alive(s.gathered)) return;
    w_.acquire(s.gathered);
    collective(Op::all_gather, Reduction::none, w_.read(s.param), w_.write(s.gathered), u,
               params_of(u));
  }

  // The unit's full parameters, wherever the stage keeps them.
  int full_param(int u) const {
    return stage() == 3 ? slots_.units[u].gathered : slots_.units[u].param;
  }
  int full_grad(int u) const {
    return stage() >= 2 ? slots_.units[u].bucket : slots_.units[u].grad;
  }
  // The tied weight: the first parameter of the embeddings.
  Operand tied(int slot, bool reads, bool writes) const {
    return {slot, writes, reads, 0, p_.model.params[0].elems};
  }
  bool is_tied_head(int u) const {
    return kind(u) == UnitKind::head && !unit(u).also_reads.empty();
  }

  void forward(int u) {
    const UnitSlots& s = slots_.units[u];
    std::vector<Operand> ops;
    ops.reserve(8);
    ops.push_back(w_.read(full_param(u)));
    const int x_out = trains_ && u + 1 < units() ? slots_.units[u + 1].x_in : no_slot;
    for (int made : {x_out, s.saved, s.workspace_forward})
      if (made != no_slot) w_.acquire(made);
    switch (kind(u)) {
      case UnitKind::embeddings:
        ops.insert(ops.end(), {w_.read(slots_.tokens), w_.write(x_out)});
        break;
      case UnitKind::block:
        ops.insert(ops.end(), {w_.read(s.x_in), w_.write(x_out), w_.write(s.saved),
                               w_.write(s.workspace_forward)});
        break;
      case UnitKind::head:
        ops.insert(ops.end(),
                   {w_.read(s.x_in), w_.read(slots_.tokens), w_.write(s.saved),
                    w_.whole(slots_.loss, !first_, true), w_.write(s.workspace_forward)});
        if (is_tied_head(u)) ops.push_back(tied(full_param(0), true, false));
        break;
      case UnitKind::list:
        for (int r : unit(u).also_reads) ops.push_back(w_.read(full_param(r)));
        break;
    }
    w_.compute(Kernel::forward, u, ops);
    if (s.workspace_forward != no_slot) w_.release(s.workspace_forward);
  }

  // Stages 0 and 1 add up over micro-batches in place; 2 and 3 make each micro-batch's gradient
  // anew.
  bool adds() const { return stage() < 2 && !first_; }

  void acquire_full_grad(int u) {
    if (!w_.alive(full_grad(u))) w_.acquire(full_grad(u));
  }

  void backward(int u) {
    const UnitSlots& s = slots_.units[u];
    std::vector<int> params = params_of(u);
    std::vector<Operand> ops;
    ops.reserve(8);
    ops.push_back(w_.read(full_param(u)));
    acquire_full_grad(u);
    if (s.workspace_backward != no_slot) w_.acquire(s.workspace_backward);
    const Operand grad = w_.whole(full_grad(u), adds(), true);
    switch (kind(u)) {
      case UnitKind::head:
        w_.acquire(slots_.dx);
        ops.insert(ops.end(), {w_.read(s.x_in), w_.read(s.saved), w_.write(slots_.dx), grad,
                               w_.write(s.workspace_backward)});
        if (is_tied_head(u)) {
          acquire_full_grad(0);
          ops.push_back(tied(full_param(0), true, false));
          ops.push_back(tied(full_grad(0), adds(), true));
          params.push_back(0);
        }
        break;
      case UnitKind::block:
        ops.insert(ops.end(), {w_.read(s.x_in), w_.read(s.saved), w_.update(slots_.dx), grad,
                               w_.write(s.workspace_backward)});
        break;
      case UnitKind::embeddings: {
        ops.insert(ops.end(), {w_.read(slots_.tokens), w_.read(slots_.dx)});
        if (is_tied_head(units() - 1)) {
          const Operand made = tied(full_grad(0), true, true);
          ops.push_back(made);
          ops.push_back({made.slot, true, adds(), made.elems, grad.elems - made.elems});
        } else {
          ops.push_back(grad);
        }
        break;
      }
      case UnitKind::list: ops.push_back(grad); break;
    }
    w_.compute(Kernel::backward, u, ops, params);
    for (int done : {s.workspace_backward, s.saved, s.x_in})
      if (done != no_slot) w_.release(done);
    if (kind(u) == UnitKind::embeddings) w_.release(slots_.dx);
  }

  // Starts the reduction of the unit whose backward is just done, then retires the one before it:
  // at most one unit's gradient is in flight while the next one is computed.
  void reduce_gradient(int u) {
    const UnitSlots& s = slots_.units[u];
    const std::vector<int> params = params_of(u);
    if (stage() < 2) {
      if (!last_) return;
      if (stage() == 0)
        collective(Op::all_reduce, Reduction::average, w_.read(s.grad), w_.write(s.grad), u,
                   params);
      else
        collective(Op::reduce_scatter, Reduction::average, w_.read(s.grad),
                   own(s.grad, u, false, true), u, params);
      return;
    }
    const int into = first_ ? s.grad : s.part;
    w_.acquire(into);
    collective(Op::reduce_scatter, Reduction::average, w_.read(s.bucket), w_.write(into), u,
               params);
    retire_reduction();
    in_flight_ = u;
  }

  void retire_reduction() {
    if (in_flight_ == no_unit) return;
    const UnitSlots& s = slots_.units[in_flight_];
    if (!first_) {
      const std::array<Operand, 2> ops{w_.update(s.grad), w_.read(s.part)};
      w_.compute(Kernel::accumulate, in_flight_, ops);
      w_.release(s.part);
    }
    w_.release(s.bucket);
    in_flight_ = no_unit;
  }

  Operand owned_grad(int u) const {
    return stage() == 1 ? own(slots_.units[u].grad, u, true, false) : w_.read(slots_.units[u].grad);
  }

  void boundary() {
    w_.begin(SegmentKind::boundary, Gradients::reduced);
    w_.phase(Phase::step);
    std::vector<Operand> ops{w_.write(slots_.sum)};
    for (int u = 0; u < units(); ++u) ops.push_back(owned_grad(u));
    w_.compute(Kernel::grad_norm, no_unit, ops);
    // At stage 0 every rank holds all gradients, so every rank has the norm already.
    if (stage() > 0)
      collective(Op::all_reduce, Reduction::sum, w_.read(slots_.sum), w_.write(slots_.sum), no_unit,
                 {});
    const std::array<Operand, 2> clip{w_.write(slots_.clip), w_.read(slots_.sum)};
    w_.compute(Kernel::clip, no_unit, clip);
    w_.end(Gradients::reduced);
  }

  void update() {
    w_.begin(SegmentKind::update, Gradients::reduced);
    w_.phase(Phase::step);
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_.units[u];
      const bool in_full_buffer = stage() == 1 || stage() == 2;
      const Operand param = in_full_buffer ? own(s.param, u, true, true) : w_.update(s.param);
      const std::array<Operand, 5> ops{param, owned_grad(u), w_.update(s.momentum),
                                       w_.update(s.variance), w_.read(slots_.clip)};
      const std::vector<int> params = params_of(u);
      w_.compute(Kernel::adamw, u, ops, params);
      w_.release(s.grad);
      if (in_full_buffer)
        collective(Op::all_gather, Reduction::none, own(s.param, u, true, false), w_.write(s.param),
                   u, params);
    }
    w_.end(Gradients::none);
  }

  Program& p_;
  PlanWriter w_;
  const bool trains_;
  const Profile& profile_;
  const PaperSlots slots_;
  bool first_ = true, last_ = true;  // of the micro-batch that is being written
  int in_flight_ = no_unit;          // unit whose reduction has started and is not retired
};

}  // namespace

void write_paper(Program& program, const Deck& deck, const Profile& profile) {
  PaperWriter(program, deck, profile).write();
}

}  // namespace shardmark
