// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include <core/plan/paper/paper_gradients.hpp>
#include <core/plan/paper/paper_schedule.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class PaperWriter : public PaperGradients {
 public:
  PaperWriter(Program& program, const Deck& deck, const Profile& profile)
      : PaperGradients(program, deck, profile), modules_(p_.model.units.size()) {
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
    const EndState closed = p_.segments[step.boundary].exit;
    step.update = update();
    if (checks()) {
      w_.resume(closed);
      step.skip = skip();
    }
    p_.steps.push_back(std::move(step));
  }

 private:
  bool checks() const { return slots_.overflow != no_slot; }

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {stage() == 3, stage() > 0, stage() > 0, stage() > 0};
    for (int u = 0; u < units(); ++u) {
      const UnitSlots& s = slots_.units[u];
      const UnitPartition& part = p_.partition.units[u];
      const std::size_t first_piece = p_.states.size();
      std::vector<FlatParam> layout;
      for (int id : params_of(u))
        layout.push_back({id, p_.model.params[id].first_elem - unit(u).first_elem});
      const std::int64_t own_first = p_.partition.offset(u, p_.rank);
      const bool whole = stage() < 3;
      place_state(p_, State::param, s.param, 0, layout, whole ? 0 : own_first,
                  whole ? part.padded : part.shard);
      // Of fp32 there is no master of its own: it is what this rank owns of param.
      place_state(p_, State::master, s.master, whole && !half() ? own_first : 0, layout, own_first,
                  part.shard);
      place_state(p_, State::momentum, s.momentum, 0, layout, own_first, part.shard);
      place_state(p_, State::variance, s.variance, 0, layout, own_first, part.shard);
      w_.acquire(s.param);
      init_params(w_, p_, s.param, first_piece);
      if (half()) {
        w_.acquire(s.master);
        w_.compute(Kernel::convert, {w_.write(s.master), owned_param(u, true, false)});
      }
      acquire_zeroed(w_, s.momentum);
      acquire_zeroed(w_, s.variance);
    }
    for (int persistent : {slots_.sum, slots_.clip, slots_.overflow, slots_.staging})
      if (persistent != no_slot) w_.acquire(persistent);
    for (int persistent : compute_.persistent()) w_.acquire(persistent);
    w_.end(Gradients::none);
  }

  int micro(const char* name, int g) {
    const bool first = g == 0, last = g == p_.batch.accumulation - 1;
    begin_gradients(first, last);
    const Gradients pending = stage() >= 2 ? Gradients::reduced : Gradients::accumulated;
    const int index = w_.begin(SegmentKind::micro, name, first ? Gradients::none : pending);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    std::vector<int> order(units());
    std::iota(order.begin(), order.end(), 0);
    pass(order, [&](int u) {
      for (int m : modules_[u]) compute_.forward(m, full_params(m));
    });

    w_.phase(Phase::backward, g);
    std::reverse(order.begin(), order.end());
    begin_backward();
    pass(order, [&](int u) {
      for (auto m = modules_[u].rbegin(); m != modules_[u].rend(); ++m) {
        compute_.recompute_before(*m, [&](int again) { return full_params(again); });
        backward(*m);
      }
      reduce_gradient(u);
    });
    retire_reductions();
    compute_.end_micro();
    w_.end(last ? Gradients::reduced : pending);
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
    if (shares())
      collective(Op::all_gather, Reduction::none, w_.read(s.param), w_.write(s.gathered), u,
                 params_of(u), groups_.shard);
    else
      w_.compute(Kernel::convert, {w_.write(s.gathered), w_.read(s.param)}).unit = u;
  }

  Operand owned_param(int u, bool reads, bool writes) const {
    const int param = slots_.units[u].param;
    return stage() == 1 || stage() == 2 ? own(param, u, reads, writes)
                                        : w_.whole(param, reads, writes);
  }

  std::vector<Operand> with_owned_grads(Operand first) const {
    std::vector<Operand> ops{first};
    for (int u = 0; u < units(); ++u) ops.push_back(owned_grad(u));
    return ops;
  }

  // What of all gradients lies on ranks that share them; a rank that holds all, as at stage 0, has
  // flag and norm already, and replicas have the same.
  void look_for_overflow() {
    w_.compute(Kernel::overflow, with_owned_grads(w_.write(slots_.overflow)));
    if (shares())
      collective(Op::all_reduce, Reduction::max, w_.read(slots_.overflow),
                 w_.write(slots_.overflow), no_unit, {}, groups_.shard);
  }

  int boundary() {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    w_.phase(Phase::step);
    if (checks()) look_for_overflow();
    w_.compute(Kernel::grad_norm, with_owned_grads(w_.write(slots_.sum)));
    if (shares())
      collective(Op::all_reduce, Reduction::sum, w_.read(slots_.sum), w_.write(slots_.sum), no_unit,
                 {}, groups_.shard);
    const std::array<Operand, 2> clip{w_.write(slots_.clip), w_.read(slots_.sum)};
    w_.compute(Kernel::clip, clip);
    w_.end(Gradients::reduced);
    return index;
  }

  int update() {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    for (int u = 0; u < units(); ++u) {
      apply(u);
      if (shares() && stage() < 3)
        collective(Op::all_gather, Reduction::none, owned_param(u, true, false),
                   w_.write(slots_.units[u].param), u, params_of(u), groups_.shard);
    }
    w_.end(Gradients::none);
    return index;
  }

  // The optimizer works in fp32: on the parameters themselves, or on their master; gradients are
  // widened, and the new parameters rounded, as they pass.
  void apply(int u) {
    const UnitSlots& s = slots_.units[u];
    std::vector<Operand> ops{half() ? w_.update(s.master) : owned_param(u, true, true),
                             owned_grad(u), w_.update(s.momentum), w_.update(s.variance),
                             w_.read(slots_.clip)};
    if (half()) ops.push_back(owned_param(u, false, true));
    w_.compute(Kernel::adamw, ops, params_of(u)).unit = u;
    w_.release(s.grad);
  }

  int skip() {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    for (int u = 0; u < units(); ++u) w_.release(slots_.units[u].grad);
    w_.end(Gradients::none);
    return index;
  }

  std::vector<std::vector<int>> modules_;  // by unit, in forward order
};

}  // namespace

void write_paper(Program& program, const Deck& deck, const Profile& profile) {
  PaperWriter(program, deck, profile).write();
}

}  // namespace shardmark
