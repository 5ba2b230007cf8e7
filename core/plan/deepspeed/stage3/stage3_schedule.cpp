// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 3: each parameter is sharded by itself and gathered when the coordinator says
// so, and its gradient is reduce-scattered through one bucket in every backward. Steps differ until
// the coordinator's state repeats, so each step is a path through segments that are written once.
//
// Source: DeepSpeed 0.19's runtime/zero/stage3.py and partition_parameters.py, and recordings of
// 0.19.8.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/deepspeed/deepspeed_steps.hpp>
#include <core/plan/deepspeed/stage3/sharded_muon.hpp>
#include <core/plan/deepspeed/stage3/stage3_gradients.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class Stage3Schedule final : public DeepSpeedSteps {
 public:
  Stage3Schedule(Program& program, const Deck& deck, const Profile& profile,
                 const SubGroups& groups)
      : DeepSpeedSteps(program, deck, profile), params_(c_, groups), bucket_(c_, params_) {
    if (is_muon(c_.optimizer())) muon_ = muon_of_shards(c_, params_);
  }

 private:
  GatherState& state() { return params_.state(); }
  std::size_t groups() const { return params_.group_count(); }
  Gradients between_micros() const override { return Gradients::reduced; }

  // ---- the state that segments hand on --------------------------------------------------------

  std::string state_key() const override { return params_.state().key(); }
  // The boundary has dropped all that updates depend on.
  std::string update_key() const override { return ""; }
  int note() override {
    noted_.push_back(state());
    return static_cast<int>(noted_.size()) - 1;
  }
  void resume(int noted) override { state() = noted_[static_cast<std::size_t>(noted)]; }
  void end_step(int closed, bool skipped) override {
    state().coordinator = noted_[static_cast<std::size_t>(closed)].coordinator;
    if (!skipped) state().coordinator.gathered_persistent();
  }
  // The last micro-batch sends gradients to the host.
  bool last_micro_differs() const override { return c_.offloads(); }
  bool repeats_skipped() const override { return true; }
  bool lists_skip_first() const override { return true; }

  std::string micro_name(int step, const MicroBatch& micro) const override {
    return fmt::format("step{}.micro{}", step, micro.index);
  }
  std::string name_of(SegmentKind kind) override {
    const std::string name(to_string(kind));
    if (kind != SegmentKind::boundary) return name;
    const int number = boundaries_++;
    return number == 0 ? name : fmt::format("{}.{}", name, number);
  }

  // ---- start-up -------------------------------------------------------------------------------

  void init() override {
    p_.sharded = {true, true, true, true};
    for (std::size_t g = 0; g < groups(); ++g) params_.declare_group(g);
    params_.declare_frozen();
    params_.begin_files();
    // Parameters are built one at a time, so that no rank ever holds the whole model. DeepSpeed
    // broadcasts each twice: by the engine, and when it is partitioned.
    for (int pass = 0; pass < 2; ++pass)
      for (int id = 0; id < c_.params(); ++id) params_.build(id, pass == 1);
    params_.note_copies();
    for (int i = 0; i < 3; ++i)
      w_.collective(Op::barrier, Reduction::none, Dtype::uint8, 0, {}, {}, of_all);
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
    if (muon_) {
      muon_->init();
      c_.program.updates_lack_scale = !c_.offloads() && c_.precision.model == Dtype::fp16;
    }
    c_.compute.acquire_persistent();
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

  void begin_micro(const MicroBatch& micro) override {
    bucket_.begin_micro(micro);
    state().coordinator.begin_pass(params_);
  }

  Operand whole_param(int id) const override { return params_.place_of(id); }

  void forward(const MicroBatch&) override {
    for (const Visit& v : forward_visits(p_.model)) visit(v);
  }

  void backward(const MicroBatch& micro) override {
    for (const Visit& v : backward_visits(p_.model)) {
      const bool forwards = v.kind == VisitKind::pre_forward || v.kind == VisitKind::post_forward;
      if (!forwards || p_.model.reentrant) finish_backward();
      if (v.kind == VisitKind::post_backward && leaf_of(v.module) == v.module) reduce_leaf();
      visit(v);
      if (v.kind == VisitKind::pre_backward) pending_ = p_.model.computed_at(v);
    }
    finish_backward();
    reduce_leaf();
    bucket_.finish();
    if (micro.last) swapper_.flush();
    state().coordinator.end_pass(params_);
  }

  void visit(const Visit& v) {
    // DeepSpeed gathers what fewer ranks hold when its rows have arrived.
    for (const int m : p_.model.computed_at(v)) c_.compute.begin(m, v.kind);
    state().coordinator.visit(v, params_);
    if (v.kind != VisitKind::pre_forward) return;
    for (const int m : p_.model.computed_at(v)) c_.compute.forward(m, places());
  }

  void finish_backward() {
    for (const int m : std::exchange(pending_, {})) {
      grads_.backward(m, places(), false);
      const bool waits = leaf_of(m) >= 0;
      for (int id : grads_.ready_after(m)) waits ? of_leaf_.push_back(id) : bucket_.add(id);
      c_.compute.end_backward();
    }
  }
  int leaf_of(int module) { return state().coordinator.leaf_of(module); }
  // The gradients of a leaf wait for the end of its backward.
  void reduce_leaf() {
    std::ranges::sort(of_leaf_);
    for (int id : of_leaf_) bucket_.add(id);
    of_leaf_.clear();
  }

  // ---- the step -------------------------------------------------------------------------------

  int gradient_sets() const override { return static_cast<int>(groups()); }
  std::vector<Operand> gradients(int set, bool counted) const override {
    const auto g = static_cast<std::size_t>(set);
    const Operand all = w_.read(params_.slots(g).grad);
    if (!counted || c_.counts_all()) return {all};
    std::vector<Operand> parts;
    for (const int id : params_.groups().groups()[g].params)
      if (c_.counts(id))
        parts.push_back(w_.read(all, params_.groups().offset_of(id), params_.shard(id)));
    return parts;
  }
  void reduce_sum(int sum) override {
    const Dtype wire = c_.offloads() ? Dtype::fp32 : Dtype::fp64;
    const SubGroup& group = params_.groups().groups()[static_cast<std::size_t>(sum)];
    const Holders holders = c_.param(group.params[0]).holders;
    scalars_.add_up(sum, wire, {p_.group_of(holders), p_.parts_group(holders)});
  }
  std::vector<int> params_of_sums() const override {
    return scalars_.updates_of(params_.groups().groups(), sums());
  }
  bool clips_on_both() const override {
    for (std::size_t g = 0; g < groups(); ++g)
      if (!params_.updated_on_host(g)) return true;
    return false;
  }

  void boundary() override {
    state().coordinator.release_all(params_);
    state().buffered.clear();  // shards that were read ahead and not used are about to change
    DeepSpeedSteps::boundary();
  }

  void update_states() override {
    for (std::size_t g = 0; g < groups(); ++g) update_group(g);
  }
  void gather_params() override {
    gather_persistent(state().coordinator.persistent());
    params_.drop_secondary();
  }

  // DeepSpeed gathers persistent parameters one by one. With one rank its joint gather does
  // nothing, but a list of one parameter, and stage3_allgather_sequential, take another path, which
  // makes a whole copy although the shard is the parameter.
  // What fewer ranks hold comes last.
  void gather_persistent(std::vector<int> list) {
    std::stable_partition(list.begin(), list.end(),
                          [&](int id) { return c_.param(id).holders == Holders::all; });
    const bool gathers = c_.world() > 1 || list.size() == 1 || c_.knobs.allgather_sequential;
    if (!gathers && !params_.on_host()) return;
    for (int id : list) {
      if (c_.world() > 1 && params_.ranks(id) == 1) continue;  // its shard is all of it
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
    w_.acquire(c_.declare_once(s.flat, "step_gradients" + params_.suffix(g), Category::grad,
                               c_.precision.grad_accum, params_.groups().groups()[g].elems));
    w_.convert(w_.write(s.flat), w_.read(s.grad));
    return in_master_type(s.flat, s.grad32, params_.suffix(g));
  }

  void drop_gradients() override {
    w_.drop(scalars_.flag());
    for (std::size_t g = 0; g < groups(); ++g) bucket_.drop_kept(g);
  }

  // DeepSpeed looks for overflows where the sums are, and sends the flag up to be reduced.
  void look_for_overflow() override {
    if (!c_.offloads()) return DeepSpeedSteps::look_for_overflow();
    if (host_flag_ == no_slot)
      host_flag_ = c_.host_slot("overflow.host", Category::workspace, Dtype::uint8, 1);
    w_.acquire(host_flag_);
    std::vector<Operand> operands{w_.write(host_flag_)};
    for (const Operand& grad : all_gradients()) operands.push_back(grad);
    w_.compute(Kernel::overflow, operands);
    scalars_.acquire_flag();
    w_.copy(w_.read(host_flag_), w_.write(scalars_.flag()));
    w_.release(host_flag_);
    scalars_.reduce_flag();
  }

  Program& p_ = c_.program;
  ShardedParams params_;
  OptimizerSwapper& swapper_ = params_.swapper();
  ShardedBucket bucket_;
  std::vector<int> pending_;  // modules whose backward waits for a recomputation
  std::vector<int> of_leaf_;  // parameters of a leaf whose gradients are ready
  int host_flag_ = no_slot;
  int boundaries_ = 0;  // numbers the boundaries
  std::vector<GatherState> noted_;
};

}  // namespace

void write_deepspeed_stage3(Program& program, const Deck& deck, const Profile& profile) {
  const SubGroups groups(program.model, deck.zero.knobs.sub_group_size, program.mesh);
  for (const SubGroup& g : groups.groups()) {
    const Holders holders = program.model.params[static_cast<std::size_t>(g.params[0])].holders;
    program.partition.per_rank += g.elems;
    program.partition.padded =
        checked_add(program.partition.padded,
                    checked_mul(g.elems, program.mesh.ranks_of(holders), "partition"), "partition");
  }
  write_steps(Stage3Schedule(program, deck, profile, groups));
}

}  // namespace shardmark
