// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 3: each parameter is sharded by itself, gathered when the coordinator says,
// and its gradient is reduce-scattered through one bucket in every backward.
//
// Source: DeepSpeed 0.19's runtime/zero/stage3.py and partition_parameters.py, and recordings of
// 0.19.8.
#include <fmt/format.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage3/stage3_gradients.hpp>

namespace shardmark {
namespace {

class ShardedWriter : public ShardedGradients {
 public:
  using ShardedGradients::ShardedGradients;

  void write() {
    init();
    stand_.alive = p_.segments[0].exit;
    add_step();
    for (std::size_t s = 0; s < p_.steps.size(); ++s) write_step(static_cast<int>(s));
  }

 private:
  struct Written {
    int segment;
    Stand after;
  };

  // ---- start-up -------------------------------------------------------------------------------

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    p_.sharded = {true, true, true, true};
    for (std::size_t g = 0; g < slots_.size(); ++g) declare_group(g);
    begin_param_files();
    // Built one parameter at a time, so that no rank ever holds the whole model; each is broadcast
    // as DeepSpeed does it: by the engine, and when it is partitioned.
    for (int pass = 0; pass < 2; ++pass)
      for (int id = 0; id < params(); ++id) build_param(id, pass == 1);
    note_copies();
    for (int i = 0; i < 3; ++i) w_.collective(Op::barrier, Reduction::none, Dtype::uint8, 0, {});
    for (const std::vector<int>& group : p_.model.param_groups)
      for (int id : group) {  // to hook its gradient; with one rank too
        gather_alone(id);
        drop(id);
      }
    std::int64_t largest = 0;
    for (const SubGroup& group : groups_.groups()) largest = std::max(largest, group.elems);
    swapper_.begin(largest);
    for (std::size_t g = 0; g < slots_.size(); ++g) begin_states(g);
    if (knobs_.contiguous_gradients) {
      bucket_ = w_.slot("bucket", Category::bucket, precision_.model, knobs_.reduce_bucket_size);
      w_.acquire(bucket_);
    }
    acquire_shared();
    end(Gradients::none);
  }

  void begin_states(std::size_t g) {
    const GroupSlots& s = slots_[g];
    if (swaps(g)) {
      master_from_param(g, swapper_.first_master(s.swapped));
      swapper_.write_first(s.swapped);
    } else {
      w_.acquire(s.master);
      master_from_param(g, w_.write(s.master));
      for (int zeroed : {s.momentum, s.variance}) acquire_zeroed(w_, zeroed);
    }
    for (int zeroed : {s.grad, s.grad32})
      if (zeroed != no_slot) acquire_zeroed(w_, zeroed);
  }

  // ---- one micro-batch ------------------------------------------------------------------------

  int micro(int step, int g) {
    const bool first = g == 0, last = g == p_.batch.accumulation - 1;
    begin_gradients(first, last);
    Coordinator& coordinator = stand_.coordinator;
    const int index = w_.begin(SegmentKind::micro, fmt::format("step{}.micro{}", step, g),
                               first ? Gradients::none : Gradients::reduced);
    w_.phase(Phase::forward, g);
    coordinator.begin_pass(*this);
    compute_.begin_micro(g);
    bool backward_begun = false;
    int pending = -1;  // its backward waits for a recomputation
    auto finish = [&] {
      if (pending < 0) return;
      backward(pending, module_params(pending), false);
      for (int id : ready_after(pending)) add_to_bucket(id);
      pending = -1;
    };
    for (const Visit& v : p_.model.visits) {
      const bool forwards = v.kind == VisitKind::pre_forward || v.kind == VisitKind::post_forward;
      if (!forwards) finish();
      if (v.kind == VisitKind::pre_backward && !backward_begun) {
        backward_begun = true;
        w_.phase(Phase::backward, g);
        begin_backward();
        if (offloads() && last) begin_looking(static_cast<int>(slots_.size()), false);
      }
      coordinator.visit(v, *this);
      const bool computes = p_.model.modules[v.module].role != Role::container;
      if (v.kind == VisitKind::pre_forward && computes)
        compute_.forward(v.module, module_params(v.module));
      if (v.kind == VisitKind::pre_backward && computes) pending = v.module;
    }
    finish();
    flush();
    retire();
    settle_copies();
    if (last) swapper_.flush();
    coordinator.end_pass(*this);
    compute_.end_micro();
    end(Gradients::reduced);
    return index;
  }

  // ---- the step, and which steps there are ----------------------------------------------------

  int add_step() {
    const auto [it, fresh] = step_of_.try_emplace(stand_.key(), static_cast<int>(p_.steps.size()));
    if (fresh) {
      p_.steps.emplace_back();
      starts_.push_back(stand_);
    }
    return it->second;
  }

  // Goes on from `written` if there is such a segment, else from what `write` writes.
  template<class Write>
  int segment(std::map<std::string, Written>& known, const std::string& key, Write write) {
    auto it = known.find(key);
    if (it == known.end()) {
      w_.resume(stand_.alive);
      const int index = write();
      stand_.alive = p_.segments[index].exit;
      it = known.emplace(key, Written{index, stand_}).first;
    }
    stand_ = it->second.after;
    return it->second.segment;
  }

  void write_step(int s) {
    stand_ = starts_[s];
    Step step;
    for (int g = 0; g < p_.batch.accumulation; ++g) {
      const bool sends = offloads() && g == p_.batch.accumulation - 1;
      step.micros.push_back(segment(micro_of_,
                                    stand_.key() + (g == 0 ? "first" : "") + (sends ? "last" : ""),
                                    [&] { return micro(s, g); }));
    }
    step.boundary = segment(boundary_of_, stand_.key(), [&] { return boundary(); });
    const Stand closed = stand_;
    if (precision_.check_overflow) {
      step.skip = segment(skip_of_, "", [&] { return skip(); });
      stand_.coordinator = closed.coordinator;
      step.after_skip = add_step();
      stand_ = closed;
    }
    step.update = segment(update_of_, "", [&] { return update(closed.coordinator.persistent()); });
    stand_.coordinator = closed.coordinator;
    stand_.coordinator.gathered_persistent();
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
    stand_.coordinator.release_all(*this);
    stand_.buffered.clear();  // shards that were read ahead and not used: they are about to change
    if (precision_.check_overflow) {
      std::vector<Operand> grads;
      for (const GroupSlots& s : slots_) grads.push_back(w_.read(s.grad));
      offloads() ? overflow_on_host(grads) : overflow_flag(grads, true);
    }
    end(Gradients::reduced);
    return index;
  }

  int update(const std::vector<int>& persistent) {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    const auto sums = static_cast<int>(slots_.size());
    if (!offloads()) acquire_step_scalars(sums);
    for (int g = 0; g < sums; ++g) {
      if (!offloads()) sum_of_squares(g, {w_.read(slots_[g].grad)});
      reduce_sum(g, offloads() ? Dtype::fp32 : Dtype::fp64, false);
    }
    bool on_device = false;  // a sub-group stayed there
    for (std::size_t g = 0; g < slots_.size(); ++g) on_device = on_device || !on_host(g);
    offloads() ? clip_on_host(sums, on_device) : clip(sums);
    for (std::size_t g = 0; g < slots_.size(); ++g) update_group(g);
    gather_persistent(persistent);
    drop_secondary();
    release_step_scalars();
    if (precision_.check_overflow) w_.release(flag());
    end(Gradients::none);
    return index;
  }

  // One by one. With one rank the coalesced path gathers nothing, but a list of one parameter, and
  // stage3_allgather_sequential, take another path, which does; the shard stays the parameter.
  void gather_persistent(const std::vector<int>& list) {
    const bool gathers = world() > 1 || list.size() == 1 || knobs_.allgather_sequential;
    if (!gathers && !params_on_host()) return;
    for (int id : list) {
      const Operand shard = stand_.where[id];
      gathers ? gather_alone(id) : bring_up(id);
      stand_.buffered.erase(id);
      if (world() > 1 || params_on_host()) continue;
      drop(id);
      stand_.where[id] = shard;
    }
  }

  void update_group(std::size_t g) {
    GroupSlots& s = slots_[g];
    const std::vector<int>& params = groups_.groups()[g].params;
    if (swaps(g)) {
      const UpdatePlaces places = swapper_.swap_in(s.swapped);
      adamw(places.master, places.grad, places.momentum, places.variance, params);
      param_from_master(g, places.master);
      swapper_.swap_out(s.swapped);
      return drop_kept(g);
    }
    if (offloads()) {
      adamw(w_.update(s.master), w_.read(s.grad32), w_.update(s.momentum), w_.update(s.variance),
            params);
      return param_from_master(g, w_.read(s.master));
    }
    const std::int64_t size = groups_.groups()[g].elems;
    w_.acquire(
        lazily(s.flat, "step_gradients" + suffix(g), Category::grad, precision_.grad_accum, size));
    w_.compute(Kernel::convert, {w_.write(s.flat), w_.read(s.grad)});
    int grad = s.flat;
    if (precision_.grad_accum != Dtype::fp32) {
      grad = lazily(s.grad32, "step_gradients_fp32" + suffix(g), Category::grad, Dtype::fp32, size);
      w_.acquire(grad);
      w_.compute(Kernel::convert, {w_.write(grad), w_.read(s.flat)});
      w_.release(s.flat);
    }
    adamw(w_.update(s.master), w_.read(grad), w_.update(s.momentum), w_.update(s.variance), params);
    w_.release(grad);
    param_from_master(g, w_.read(s.master));
  }

  int skip() {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    w_.release(flag());
    for (std::size_t g = 0; g < slots_.size(); ++g) drop_kept(g);
    release_step_scalars();
    end(Gradients::none);
    return index;
  }

  // DeepSpeed looks for overflows where the sums are, and sends the flag up to be reduced.
  void overflow_on_host(const std::vector<Operand>& grads) {
    if (host_flag_ == no_slot)
      host_flag_ = host_slot("overflow.host", Category::workspace, Dtype::uint8, 1);
    w_.acquire(host_flag_);
    std::vector<Operand> operands{w_.write(host_flag_)};
    operands.insert(operands.end(), grads.begin(), grads.end());
    w_.compute(Kernel::overflow, operands);
    acquire_flag();
    w_.copy(w_.read(host_flag_), w_.write(flag()));
    w_.release(host_flag_);
    reduce_flag();
  }

  int host_flag_ = no_slot;
  int boundaries_ = 0;                  // names of the boundaries
  std::vector<Stand> starts_;           // by step
  std::map<std::string, int> step_of_;  // by what it starts from
  std::map<std::string, Written> micro_of_, boundary_of_, update_of_, skip_of_;
};

}  // namespace

void write_deepspeed_sharded(Program& program, const Deck& deck, const Profile& profile) {
  const SubGroups groups(program.model, deck.zero.knobs.sub_group_size, program.world);
  for (const SubGroup& g : groups.groups()) program.partition.per_rank += g.elems;
  program.partition.padded = checked_mul(program.partition.per_rank, program.world, "partition");
  ShardedWriter(program, deck, profile, groups).write();
}

}  // namespace shardmark
