// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include <core/plan/compute_writer.hpp>
#include <core/plan/paper.hpp>
#include <core/plan/paper_slots.hpp>
#include <core/plan/state_writer.hpp>

namespace shardmark {
namespace {

constexpr int no_unit = -1;

class PaperWriter {
 public:
  PaperWriter(Program& program, const Deck& deck, const Profile& profile)
      : p_(program),
        w_(program),
        compute_(program, w_, deck, profile),
        profile_(profile),
        slots_(declare_paper_slots(w_, p_, profile)),
        modules_(p_.model.units.size()) {
    for (int m : p_.model.computing(VisitKind::pre_forward))
      if (p_.model.modules[m].unit >= 0) modules_[p_.model.modules[m].unit].push_back(m);
  }

  void write() {
    init();
    Step step;
    const auto last = static_cast<int>(p_.batch.accumulation) - 1;
    step.micros.push_back(micro(last == 0 ? "micro_only" : "micro_first", 0));
    if (last > 1) {
      const int middle = micro("micro_middle", 1);
      step.micros.resize(last, middle);
    }
    if (last > 0) step.micros.push_back(micro("micro_last", last));
    step.boundary = boundary();
    step.update = update();
    p_.steps.push_back(std::move(step));
  }

 private:
  int stage() const { return p_.stage; }
  int units() const { return static_cast<int>(p_.model.units.size()); }
  const Unit& unit(int u) const { return p_.model.units[u]; }
  std::vector<int> params_of(int u) const {
    std::vector<int> ids(unit(u).param_count);
    std::iota(ids.begin(), ids.end(), unit(u).first_param);
    return ids;
  }

  // This rank's own part of a buffer that holds the whole unit.
  Operand own(int slot, int u, bool reads, bool writes) const {
    return {slot, writes, reads, p_.partition.offset(u, p_.rank), p_.partition.units[u].shard};
  }

  Event& collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                    std::span<const int> params) {
    Event& e =
        write_collective(w_, p_, profile_, slots_.staging, op, reduction, send, receive, params);
    e.unit = u;
    return e;
  }

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {stage() == 3, stage() > 0, stage() > 0, stage() > 0};
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_.units[u];
      const UnitPartition& part = p_.partition.units[u];
      std::vector<FlatParam> layout;
      for (int id : params_of(u))
        layout.push_back({id, p_.model.params[id].first_elem - unit(u).first_elem});
      const std::int64_t own_first = p_.partition.offset(u, p_.rank);
      const bool whole = stage() < 3;
      place_state(p_, State::param, s.param, 0, layout, whole ? 0 : own_first,
                  whole ? part.padded : part.shard);
      // There is no master of its own: it is what this rank owns of param.
      place_state(p_, State::master, s.param, whole ? own_first : 0, layout, own_first, part.shard);
      place_state(p_, State::momentum, s.momentum, 0, layout, own_first, part.shard);
      place_state(p_, State::variance, s.variance, 0, layout, own_first, part.shard);
      w_.acquire(s.param);
      init_params(w_, p_, s.param);
      acquire_zeroed(w_, s.momentum);
      acquire_zeroed(w_, s.variance);
    }
    for (int persistent : {slots_.sum, slots_.clip, slots_.staging})
      if (persistent != no_slot) w_.acquire(persistent);
    for (int persistent : compute_.persistent()) w_.acquire(persistent);
    w_.end(Gradients::none);
  }

  int micro(const char* name, int g) {
    first_ = g == 0;
    last_ = g == p_.batch.accumulation - 1;
    const Gradients pending = stage() >= 2 ? Gradients::reduced : Gradients::accumulated;
    const int index = w_.begin(SegmentKind::micro, name, first_ ? Gradients::none : pending);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    std::vector<int> order(units());
    std::iota(order.begin(), order.end(), 0);
    pass(order, [&](int u) {
      for (int m : modules_[u]) compute_.forward(m, full_params(m));
    });

    w_.phase(Phase::backward, g);
    std::reverse(order.begin(), order.end());
    in_flight_ = no_unit;
    made_.clear();
    pass(order, [&](int u) {
      for (auto m = modules_[u].rbegin(); m != modules_[u].rend(); ++m) {
        compute_.recompute_before(*m, [&](int again) { return full_params(again); });
        backward(*m);
      }
      reduce_gradient(u);
    });
    retire_reduction();
    compute_.end_micro();
    w_.end(last_ ? Gradients::reduced : pending);
    return index;
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

  // A parameter's place in its unit's flat buffer `slot`.
  Operand tensor(int slot, int param, bool reads, bool writes) const {
    const Param& p = p_.model.params[param];
    return {slot, writes, reads, p.first_elem - unit(p.unit).first_elem, p.elems};
  }
  std::vector<Operand> full_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module))
      operands.push_back(tensor(full_param(p_.model.params[id].unit), id, true, false));
    return operands;
  }

  // Stages 0 and 1 add up over micro-batches in place; 2 and 3 make each micro-batch's gradient
  // anew. A tied weight's second user adds to what the first one made.
  void backward(int module) {
    std::vector<Operand> grads;
    for (int id : p_.model.params_of(module)) {
      const int u = p_.model.params[id].unit;
      acquire_full_grad(u);
      const bool adds = (stage() < 2 && !first_) || !made_.insert(id).second;
      grads.push_back(tensor(full_grad(u), id, adds, true));
    }
    compute_.backward(module, full_params(module), grads);
  }

  // Padding is reduced and squared with the rest, so it must be zero.
  void acquire_full_grad(int u) {
    const int slot = full_grad(u);
    if (w_.alive(slot)) return;
    w_.acquire(slot);
    const UnitPartition& part = p_.partition.units[u];
    if (part.padded > part.elems)
      w_.compute(Kernel::zero, {w_.part(slot, part.elems, part.padded - part.elems, false, true)});
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
      w_.compute(Kernel::accumulate, ops).unit = in_flight_;
      w_.release(s.part);
    }
    w_.release(s.bucket);
    in_flight_ = no_unit;
  }

  Operand owned_grad(int u) const {
    return stage() == 1 ? own(slots_.units[u].grad, u, true, false) : w_.read(slots_.units[u].grad);
  }

  int boundary() {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    w_.phase(Phase::step);
    std::vector<Operand> ops{w_.write(slots_.sum)};
    for (int u = 0; u < units(); ++u) ops.push_back(owned_grad(u));
    w_.compute(Kernel::grad_norm, ops);
    // At stage 0 every rank holds all gradients, so every rank has the norm already.
    if (stage() > 0)
      collective(Op::all_reduce, Reduction::sum, w_.read(slots_.sum), w_.write(slots_.sum), no_unit,
                 {});
    const std::array<Operand, 2> clip{w_.write(slots_.clip), w_.read(slots_.sum)};
    w_.compute(Kernel::clip, clip);
    w_.end(Gradients::reduced);
    return index;
  }

  int update() {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_.units[u];
      const bool in_full_buffer = stage() == 1 || stage() == 2;
      const Operand param = in_full_buffer ? own(s.param, u, true, true) : w_.update(s.param);
      const std::array<Operand, 5> ops{param, owned_grad(u), w_.update(s.momentum),
                                       w_.update(s.variance), w_.read(slots_.clip)};
      const std::vector<int> params = params_of(u);
      w_.compute(Kernel::adamw, ops, params).unit = u;
      w_.release(s.grad);
      if (in_full_buffer)
        collective(Op::all_gather, Reduction::none, own(s.param, u, true, false), w_.write(s.param),
                   u, params);
    }
    w_.end(Gradients::none);
    return index;
  }

  Program& p_;
  PlanWriter w_;
  ComputeWriter compute_;
  const Profile& profile_;
  const PaperSlots slots_;
  std::vector<std::vector<int>> modules_;  // by unit, in forward order
  std::set<int> made_;                     // parameters whose gradient this backward has begun
  bool first_ = true, last_ = true;        // of the micro-batch that is being written
  int in_flight_ = no_unit;                // unit whose reduction has started and is not retired
};

}  // namespace

void write_paper(Program& program, const Deck& deck, const Profile& profile) {
  PaperWriter(program, deck, profile).write();
}

}  // namespace shardmark
