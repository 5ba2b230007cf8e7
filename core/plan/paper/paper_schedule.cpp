// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include <core/plan/paper/paper_gradients.hpp>
#include <core/plan/paper/paper_schedule.hpp>
#include <core/plan/write/state_writer.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {
namespace {

class PaperSchedule final : public StepSchedule {
 public:
  PaperSchedule(Program& program, const Deck& deck, const Profile& profile)
      : c_(program, deck, profile),
        grads_(c_),
        modules_(p_.model.units.size()),
        backward_modules_(p_.model.units.size()) {
    for (int m : p_.model.computing(VisitKind::pre_forward))
      if (p_.model.modules[m].unit >= 0) modules_[p_.model.modules[m].unit].push_back(m);
    for (int m : p_.model.computing(VisitKind::pre_backward))
      if (p_.model.modules[m].unit >= 0) backward_modules_[p_.model.modules[m].unit].push_back(m);
  }

  ScheduleContext& context() override { return c_; }

 private:
  Gradients between_micros() const override {
    return c_.stage() >= 2 ? Gradients::reduced : Gradients::accumulated;
  }
  bool may_skip() const override { return c_.slots.overflow != no_slot; }

  void init() override {
    p_.sharded = {c_.stage() == 3, c_.stage() > 0, c_.stage() > 0, c_.stage() > 0};
    for (int u = 0; u < c_.units(); ++u) {
      const UnitSlots& s = c_.slots_of(u);
      const UnitPartition& part = p_.partition.units[u];
      const std::size_t first_piece = p_.states.size();
      std::vector<FlatParam> layout;
      for (int id : c_.params_of(u))
        layout.push_back({id, p_.model.params[id].first_elem - c_.unit(u).first_elem});
      const std::int64_t own_first = p_.partition.offset(u, p_.partition_rank());
      const bool whole = c_.stage() < 3;
      place_state(p_, State::param, s.param, 0, layout, whole ? 0 : own_first,
                  whole ? part.padded : part.shard);
      // fp32 parameters are their own master: the part of them that this rank owns.
      s.states.place(p_, whole && !c_.has_master() ? own_first : 0, 0, layout, own_first,
                     part.shard);
      w_.acquire(s.param);
      init_params(w_, p_, s.param, first_piece);
      if (c_.has_master()) {
        w_.acquire(s.states.master());
        w_.convert(w_.write(s.states.master()), owned_param(u, true, false));
      }
      s.states.begin_moments(w_);
    }
    for (int persistent :
         {c_.slots.sum, c_.slots.clip, c_.slots.overflow, c_.collectives.scratch()})
      if (persistent != no_slot) w_.acquire(persistent);
    c_.compute.acquire_persistent();
  }

  Operand whole_param(int id) const override { return c_.full_param(id); }

  void forward(const MicroBatch&) override {
    std::vector<int> order(c_.units());
    std::iota(order.begin(), order.end(), 0);
    pass(order, [&](int u) {
      for (int m : modules_[u]) c_.compute.forward(m, places());
    });
  }

  void backward(const MicroBatch& micro) override {
    grads_.begin_backward(micro);
    std::vector<int> order(c_.units());
    std::iota(order.rbegin(), order.rend(), 0);
    pass(order, [&](int u) {
      for (const int m : backward_modules_[u]) {
        c_.compute.recompute_before(m, places());
        grads_.backward(m);
      }
      grads_.reduce(u);
    });
    grads_.finish();
  }

  // Runs `compute` over the units. At stage 3 each pass gathers a unit once, one computation ahead
  // of its first use, and drops it right after its last use.
  template<class Compute>
  void pass(const std::vector<int>& order, Compute compute) {
    const int n = static_cast<int>(order.size());
    auto needs = [&](int j) {
      std::vector<int> all = c_.unit(order[j]).also_reads;
      all.push_back(order[j]);
      return all;
    };
    std::vector<int> last_use(c_.units(), -1);
    for (int j = 0; j < n; ++j)
      for (int u : needs(j)) last_use[u] = j;
    for (int j = 0; j < n; ++j) {
      if (c_.stage() == 3)
        for (int ahead = j; ahead <= std::min(j + 1, n - 1); ++ahead)
          for (int u : needs(ahead)) gather(u);
      compute(order[j]);
      if (c_.stage() == 3)
        for (int u : needs(j))
          if (last_use[u] == j) w_.release(c_.slots_of(u).gathered);
    }
  }

  void gather(int u) {
    const UnitSlots& s = c_.slots_of(u);
    if (w_.alive(s.gathered)) return;
    w_.acquire(s.gathered);
    if (c_.shares())
      c_.collective(Op::all_gather, Reduction::none, w_.read(s.param), w_.write(s.gathered), u,
                    c_.params_of(u), c_.groups.shard);
    else
      w_.convert(w_.write(s.gathered), w_.read(s.param)).unit = u;
  }

  Operand owned_param(int u, bool reads, bool writes) const {
    const int param = c_.slots_of(u).param;
    return c_.stage() == 1 || c_.stage() == 2 ? c_.own(param, u, reads, writes)
                                              : w_.whole(param, reads, writes);
  }

  std::vector<Operand> with_owned_grads(Operand first) const {
    std::vector<Operand> ops{first};
    for (int u = 0; u < c_.units(); ++u) ops.push_back(grads_.owned(u));
    return ops;
  }

  // Looks at the part of each gradient that this rank shares with other ranks. A rank that holds
  // whole gradients, as at stage 0, has the whole flag and norm already, and its replicas have the
  // same.
  void look_for_overflow() {
    w_.compute(Kernel::overflow, with_owned_grads(w_.write(c_.slots.overflow)));
    if (c_.shares())
      c_.collective(Op::all_reduce, Reduction::max, w_.read(c_.slots.overflow),
                    w_.write(c_.slots.overflow), no_unit, {}, c_.groups.shard);
  }

  void boundary() override {
    const PaperSlots& s = c_.slots;
    if (may_skip()) look_for_overflow();
    w_.compute(Kernel::grad_norm, with_owned_grads(w_.write(s.sum)));
    if (c_.shares())
      c_.collective(Op::all_reduce, Reduction::sum, w_.read(s.sum), w_.write(s.sum), no_unit, {},
                    c_.groups.shard);
    const std::array<Operand, 2> clip{w_.write(s.clip), w_.read(s.sum)};
    w_.compute(Kernel::clip, clip);
  }

  void update() override {
    for (int u = 0; u < c_.units(); ++u) {
      update_unit(u);
      if (c_.shares() && c_.stage() < 3)
        c_.collective(Op::all_gather, Reduction::none, owned_param(u, true, false),
                      w_.write(c_.slots_of(u).param), u, c_.params_of(u), c_.groups.shard);
    }
  }

  // The optimizer works in fp32, on the parameters themselves or on their master. Its kernel widens
  // the gradients and rounds the new parameters as they pass.
  void update_unit(int u) {
    const UnitSlots& s = c_.slots_of(u);
    const Operand own = owned_param(u, false, true);
    const UpdatePlaces places =
        s.states.part(w_, c_.has_master() ? 0 : own.offset, 0, own.elems, grads_.owned(u));
    std::optional<Operand> rounded;
    if (c_.has_master()) rounded = own;
    write_update(w_, c_.optimizer, places, c_.slots.clip, c_.params_of(u), rounded).unit = u;
    w_.release(s.grad);
  }

  void skip() override {
    for (int u = 0; u < c_.units(); ++u) w_.release(c_.slots_of(u).grad);
  }

  PaperContext c_;
  Program& p_ = c_.program;
  PlanWriter& w_ = c_.writer;
  PaperGradients grads_;
  std::vector<std::vector<int>> modules_, backward_modules_;  // by unit, in the order of each pass
};

}  // namespace

void write_paper(Program& program, const Deck& deck, const Profile& profile) {
  write_steps(PaperSchedule(program, deck, profile));
}

}  // namespace shardmark
