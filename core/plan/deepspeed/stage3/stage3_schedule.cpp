// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 3: each parameter is sharded by itself and gathered when the coordinator says
// so, and its gradient is reduce-scattered through one bucket in every backward. Steps differ until
// the coordinator's state repeats, so each step is a path through segments that are written once.
//
// Source: DeepSpeed 0.19's runtime/zero/stage3.py and partition_parameters.py, and recordings of
// 0.19.8.
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/deepspeed/stage3/sharded_muon.hpp>
#include <core/plan/deepspeed/stage3/stage3_gradients.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class Stage3Schedule {
 public:
  Stage3Schedule(Program& program, const Deck& deck, const Profile& profile,
                 const SubGroups& groups)
      : c_(program, deck, profile),
        collectives_(c_),
        grads_(c_),
        scalars_(c_),
        swapper_(w_, deck),
        params_(c_, collectives_, swapper_, groups),
        bucket_(c_, collectives_, grads_, scalars_, swapper_, params_),
        muon_(c_, collectives_, scalars_, swapper_, params_) {}

  void write() {
    init();
    if (p_.extent == Extent::start_up) return;
    state().alive = p_.segments[0].exit;
    add_step();
    for (std::size_t s = 0; s < p_.steps.size(); ++s) write_step(static_cast<int>(s));
  }

 private:
  struct Written {
    int segment;
    GatherState after;
  };
  using WrittenByKey = std::map<std::string, Written>;

  GatherState& state() { return params_.state(); }
  std::size_t groups() const { return params_.group_count(); }
  void end(Gradients gradients) {
    collectives_.end_segment();
    w_.end(gradients);
  }

  // ---- start-up -------------------------------------------------------------------------------

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {true, true, true, true};
    for (std::size_t g = 0; g < groups(); ++g) params_.declare_group(g);
    params_.declare_frozen();
    params_.begin_files();
    // Parameters are built one at a time, so that no rank ever holds the whole model. DeepSpeed
    // broadcasts each twice: by the engine, and when it is partitioned.
    for (int pass = 0; pass < 2; ++pass)
      for (int id = 0; id < c_.params(); ++id) params_.build(id, pass == 1);
    params_.note_copies();
    for (int i = 0; i < 3; ++i) w_.collective(Op::barrier, Reduction::none, Dtype::uint8, 0, {});
    for (const std::vector<int>& group : p_.model.param_groups)
      for (int id : group) {  // to hook its gradient, with one rank too
        params_.gather_alone(id);
        params_.drop(id);
      }
    std::int64_t largest = 0;
    for (const SubGroup& group : params_.groups().groups())
      largest = std::max(largest, group.elems);
    swapper_.begin(largest);
    for (std::size_t g = 0; g < groups(); ++g) begin_states(g);
    bucket_.acquire();
    if (is_muon(c_.optimizer())) muon_.init();
    c_.acquire_persistent();
    end(Gradients::none);
  }

  void begin_states(std::size_t g) {
    const SubGroupSlots& s = params_.slots(g);
    if (params_.swaps(g)) {
      params_.master_from_param(g, swapper_.first_master(s.swapped));
      swapper_.write_first(s.swapped);
    } else {
      w_.acquire(s.states.master());
      params_.master_from_param(g, w_.write(s.states.master()));
      s.states.begin_moments(w_);
    }
    for (int zeroed : {s.momentum, s.grad, s.grad32})
      if (zeroed != no_slot && !w_.alive(zeroed)) acquire_zeroed(w_, zeroed);
  }

  // ---- one micro-batch ------------------------------------------------------------------------

  int micro(int step, int g) {
    const MicroBatch micro{g, g == 0, g == p_.batch.accumulation - 1};
    bucket_.begin_micro(micro);
    Coordinator& coordinator = state().coordinator;
    const int index = w_.begin(SegmentKind::micro, fmt::format("step{}.micro{}", step, g),
                               micro.first ? Gradients::none : Gradients::reduced);
    w_.phase(Phase::forward, g);
    coordinator.begin_pass(params_);
    c_.compute.begin_micro(g);
    bool backward_begun = false;
    int pending = -1;  // the module whose backward waits for a recomputation
    for (const Visit& v : p_.model.visits) {
      const bool forwards = v.kind == VisitKind::pre_forward || v.kind == VisitKind::post_forward;
      if (!forwards || p_.model.reentrant) finish_backward(pending);
      if (v.kind == VisitKind::pre_backward && !backward_begun) {
        backward_begun = true;
        begin_backward(micro);
      }
      coordinator.visit(v, params_);
      const bool computes = p_.model.modules[v.module].role != Role::container;
      if (v.kind == VisitKind::pre_forward && computes)
        c_.compute.forward(v.module, params_.module_params(v.module));
      if (v.kind == VisitKind::pre_backward && computes) pending = v.module;
    }
    finish_backward(pending);
    bucket_.finish();
    if (micro.last) swapper_.flush();
    coordinator.end_pass(params_);
    c_.compute.end_micro();
    end(Gradients::reduced);
    return index;
  }

  void begin_backward(const MicroBatch& micro) {
    w_.phase(Phase::backward, micro.index);
    grads_.begin_backward();
    if (c_.offloads() && micro.last) scalars_.begin_gradually(static_cast<int>(groups()), false);
  }

  void finish_backward(int& pending) {
    if (pending < 0) return;
    grads_.backward(pending, params_.module_params(pending), false);
    for (int id : grads_.ready_after(pending)) bucket_.add(id);
    pending = -1;
  }

  // ---- the step, and which steps there are ----------------------------------------------------

  // The step that starts from the present state, which is new unless that state came before.
  int add_step() {
    const auto [it, fresh] = step_of_.try_emplace(state().key(), static_cast<int>(p_.steps.size()));
    if (fresh) {
      p_.steps.emplace_back();
      starts_.push_back(state());
    }
    return it->second;
  }

  // Continues after the segment of that key, which `write` writes if there is none yet.
  template<class Write>
  int segment(WrittenByKey& known, const std::string& key, Write write) {
    auto it = known.find(key);
    if (it == known.end()) {
      w_.resume(state().alive);
      const int index = write();
      state().alive = p_.segments[index].exit;
      it = known.emplace(key, Written{index, state()}).first;
    }
    state() = it->second.after;
    return it->second.segment;
  }

  void write_micros(int s, MicroBatches& micros) {
    const std::int64_t count = p_.batch.accumulation;
    const std::int64_t alike = c_.offloads() ? count - 1 : count;  // the last one sends gradients
    std::map<std::string, std::int64_t> began;  // the micro-batch that starts from a key
    for (std::int64_t g = 0; g < count;) {
      const std::string key = state().key() + (g == 0 ? "first" : "") + (g >= alike ? "last" : "");
      const auto [it, fresh] = began.try_emplace(key, g);
      // Once a micro-batch starts like an earlier one, everything in between repeats.
      const std::int64_t period = g - it->second;
      const std::int64_t times = fresh ? 0 : (alike - g) / period;
      if (times > 0) {
        micros.repeat(period, times);
        g += period * times;
      } else {
        micros.push_back(segment(micro_of_, key, [&] { return micro(s, static_cast<int>(g)); }));
        ++g;
      }
    }
  }

  void write_step(int s) {
    state() = starts_[s];
    Step step;
    write_micros(s, step.micros);
    step.boundary = segment(boundary_of_, state().key(), [&] { return boundary(); });
    const GatherState closed = state();
    if (c_.precision.check_overflow) {
      step.skip = segment(skip_of_, "", [&] { return skip(); });
      state().coordinator = closed.coordinator;
      step.after_skip = add_step();
      state() = closed;
    }
    step.update = segment(update_of_, "", [&] { return update(closed.coordinator.persistent()); });
    state().coordinator = closed.coordinator;
    state().coordinator.gathered_persistent();
    step.after_update = add_step();
    p_.steps[s] = std::move(step);
  }

  int boundary() {
    const int index =
        w_.begin(SegmentKind::boundary,
                 boundaries_ == 0 ? "boundary" : fmt::format("boundary.{}", boundaries_),
                 Gradients::reduced);
    ++boundaries_;
    w_.phase(Phase::step);
    state().coordinator.release_all(params_);
    state().buffered.clear();  // shards that were read ahead and not used are about to change
    if (c_.precision.check_overflow) {
      std::vector<Operand> grads;
      for (std::size_t g = 0; g < groups(); ++g) grads.push_back(w_.read(params_.slots(g).grad));
      c_.offloads() ? set_flag_on_host(grads) : scalars_.set_flag(grads, true);
    }
    end(Gradients::reduced);
    return index;
  }

  int update(const std::vector<int>& persistent) {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    const bool offloads = c_.offloads();
    const auto sums = static_cast<int>(groups());
    muon_.make_updates();
    if (!offloads) scalars_.acquire(sums);
    for (int g = 0; g < sums; ++g) {
      if (!offloads) scalars_.sum_of_squares(g, {w_.read(params_.slots(g).grad)});
      scalars_.reduce_sum(g, offloads ? Dtype::fp32 : Dtype::fp64, false);
    }
    bool on_device = false;  // whether any sub-group stayed there
    for (std::size_t g = 0; g < groups(); ++g) on_device = on_device || !params_.updated_on_host(g);
    offloads ? scalars_.clip_on_host(sums, on_device)
             : scalars_.clip(sums, scalars_.updates_of(params_.groups().groups(), sums));
    for (std::size_t g = 0; g < groups(); ++g) update_group(g);
    gather_persistent(persistent);
    params_.drop_secondary();
    scalars_.release();
    if (c_.precision.check_overflow) w_.release(scalars_.flag());
    end(Gradients::none);
    return index;
  }

  // DeepSpeed gathers persistent parameters one by one. With one rank its joint gather does
  // nothing, but a list of one parameter, and stage3_allgather_sequential, take another path, which
  // makes a whole copy although the shard is the parameter.
  void gather_persistent(const std::vector<int>& list) {
    const bool gathers = c_.world() > 1 || list.size() == 1 || c_.knobs.allgather_sequential;
    if (!gathers && !params_.on_host()) return;
    for (int id : list) {
      gathers ? params_.copy_whole(id) : params_.bring_up(id);
      state().buffered.erase(id);
    }
  }

  void update_group(std::size_t g) {
    const SubGroupSlots& s = params_.slots(g);
    const std::vector<int>& ids = params_.groups().groups()[g].params;
    if (params_.swaps(g)) {
      const UpdatePlaces places = swapper_.swap_in(s.swapped);
      scalars_.update_by(params_.optimizer_of(g), places, ids);
      params_.param_from_master(g, places.master);
      swapper_.swap_out(s.swapped);
      return bucket_.drop_kept(g);
    }
    const int grad = c_.offloads() ? s.grad32 : flat_gradient(g);
    scalars_.update_by(params_.optimizer_of(g), s.states.whole(w_, w_.read(grad)), ids);
    if (!c_.offloads()) w_.release(grad);
    params_.param_from_master(g, w_.read(s.states.master()));
  }

  // One flat fp32 copy of a sub-group's gradients, which is then alive.
  int flat_gradient(std::size_t g) {
    SubGroupSlots& s = params_.slots(g);
    const std::int64_t size = params_.groups().groups()[g].elems;
    const Dtype accum = c_.precision.grad_accum;
    w_.acquire(
        c_.declare_once(s.flat, "step_gradients" + params_.suffix(g), Category::grad, accum, size));
    c_.convert(w_.write(s.flat), w_.read(s.grad));
    const Dtype master = c_.precision.master;
    if (accum == master) return s.flat;
    w_.acquire(c_.declare_once(
        s.grad32, "step_gradients_" + std::string(to_string(master)) + params_.suffix(g),
        Category::grad, master, size));
    c_.convert(w_.write(s.grad32), w_.read(s.flat));
    w_.release(s.flat);
    return s.grad32;
  }

  int skip() {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    w_.release(scalars_.flag());
    for (std::size_t g = 0; g < groups(); ++g) bucket_.drop_kept(g);
    scalars_.release();
    end(Gradients::none);
    return index;
  }

  // DeepSpeed looks for overflows where the sums are, and sends the flag up to be reduced.
  void set_flag_on_host(const std::vector<Operand>& grads) {
    if (host_flag_ == no_slot)
      host_flag_ = c_.host_slot("overflow.host", Category::workspace, Dtype::uint8, 1);
    w_.acquire(host_flag_);
    std::vector<Operand> operands{w_.write(host_flag_)};
    operands.insert(operands.end(), grads.begin(), grads.end());
    w_.compute(Kernel::overflow, operands);
    scalars_.acquire_flag();
    w_.copy(w_.read(host_flag_), w_.write(scalars_.flag()));
    w_.release(host_flag_);
    scalars_.reduce_flag();
  }

  DeepSpeedContext c_;
  Program& p_ = c_.program;
  PlanWriter& w_ = c_.writer;
  Collectives collectives_;
  ModelGradients grads_;
  StepScalars scalars_;
  OptimizerSwapper swapper_;
  ShardedParams params_;
  ShardedBucket bucket_;
  ShardedMuon muon_;
  int host_flag_ = no_slot;
  int boundaries_ = 0;                  // numbers the boundaries
  std::vector<GatherState> starts_;     // by step
  std::map<std::string, int> step_of_;  // by the key of the state from which it starts
  WrittenByKey micro_of_, boundary_of_, update_of_, skip_of_;
};

}  // namespace

void write_deepspeed_stage3(Program& program, const Deck& deck, const Profile& profile) {
  const SubGroups groups(program.model, deck.zero.knobs.sub_group_size, program.world);
  for (const SubGroup& g : groups.groups()) program.partition.per_rank += g.elems;
  program.partition.padded = checked_mul(program.partition.per_rank, program.world, "partition");
  Stage3Schedule(program, deck, profile, groups).write();
}

}  // namespace shardmark
