// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stages 1 and 2: parameter groups are flat buffers, and gradients go through buckets.
// By default a bucket is all-reduced and each rank keeps what it owns; there is no reduce-scatter.
// Stage 1 reduces after the last backward of a step, stage 2 in every one.
//
// Source: DeepSpeed 0.19's runtime/zero/stage_1_and_2.py, and recordings of 0.19.8.
#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/deepspeed/stage12/flat_muon.hpp>
#include <core/plan/deepspeed/stage12/flat_steps.hpp>
#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>

namespace shardmark {
namespace {

class Stage12Schedule final : public FlatSteps {
 public:
  Stage12Schedule(Program& program, const Deck& deck, const Profile& profile,
                  const FlatGroups& groups)
      : FlatSteps(program, deck, profile, groups),
        buckets_(c_, states_),
        step_slots_(groups.groups().size()) {
    if (is_muon(c_.optimizer()))
      muon_ = muon_placement(stage(), c_.offloads(), false).gather == MuonGather::partitions
                  ? muon_of_host_partitions(c_, states_)
                  : muon_of_kept_matrices(c_, states_, buckets_);
  }

 private:
  struct StepSlots {
    int grad = no_slot, grad32 = no_slot;
  };
  int stage() const { return c_.stage(); }

  Gradients between_micros() const override {
    return stage() == 2 ? Gradients::reduced : Gradients::accumulated;
  }
  bool muon_on_host() const { return is_muon(c_.optimizer()) && c_.offloads(); }
  // The first update of matrices has no momentum to gather.
  int special_steps() const override { return muon_on_host() ? 1 : 0; }
  bool repeats_skipped() const override { return muon_on_host(); }
  bool skips_leave_slots() const override { return buckets_.sums_outlive_skips(); }

  void init() override {
    states_.init();
    if (muon_) muon_->init();
    c_.program.updates_lack_scale = !muon_on_host() && c_.precision.model == Dtype::fp16;
    c_.program.resumed_step = special_steps();
    buckets_.acquire_offload();
    c_.compute.acquire_persistent();
  }

  /// Whether this micro-batch reduces gradients, and whether as soon as each is ready.
  bool reduces(const MicroBatch& micro) const {
    return stage() == 2 || (micro.last && !reduces_in_step());
  }
  bool reduces_when_ready(const MicroBatch& micro) const {
    return reduces(micro) && (stage() == 2 || c_.knobs.overlap_comm);
  }
  bool sums_locally() const { return stage() == 1 && buckets_.separate_accum(); }

  void begin_micro(const MicroBatch& micro) override { buckets_.begin_micro(micro); }

  void backward_module(int module, const MicroBatch& micro) override {
    buckets_.acquire();
    grads_.backward(module, places(), stage() == 1 && !micro.first && !sums_locally());
    for (int id : grads_.ready_after(module)) {
      if (sums_locally()) buckets_.accumulate_locally(id);
      if (reduces_when_ready(micro)) buckets_.add(id);
    }
  }

  void after_backward(const MicroBatch& micro) override {
    if (!reduces(micro)) return;
    if (!reduces_when_ready(micro)) add_all();
    buckets_.finish();
    if (micro.last && !reduces_in_step()) end_accumulation();
  }

  void end_accumulation() {
    buckets_.hold_partition();
    make_muon_updates(MuonMoment::reduced);
    if (buckets_.drops_updated()) buckets_.drop_kept();
  }

  // In the optimizer's order.
  void add_all() {
    buckets_.correct_all();
    for (const FlatGroup& group : groups())
      for (int id : group.params)
        if (c_.param(id).use == ParamUse::trained) buckets_.add(id);
  }

  // Without managed accumulation stage 2 has reduced all it has, and only arranges its partition.
  void reduce_step() override {
    if (stage() == 1) {
      add_all();
      buckets_.finish();
    }
    end_accumulation();
  }

  int gradient_sets() const override { return static_cast<int>(groups().size()); }
  std::vector<Operand> gradients(int set, bool counted) const override {
    return buckets_.owned_grads(static_cast<std::size_t>(set), counted);
  }
  int sums() const override { return c_.knobs.compute_grad_norm ? gradient_sets() : 0; }
  void reduce_sum(int sum) override {
    scalars_.add_up(sum, Dtype::fp32, {of_partition, c_.program.norm_group()});
    if (sum + 1 < sums()) return;
    // DeepSpeed averages the norms of what fewer ranks hold among these, which have the same norms
    // already.
    for (int g = 0; g < sums(); ++g)
      if (const Holders h = groups()[static_cast<std::size_t>(g)].holders; h != Holders::all)
        scalars_.average_sum(g, Dtype::fp32, c_.program.group_of(h));
  }
  std::vector<int> params_of_sums() const override { return scalars_.updates_of(groups(), sums()); }

  // With the optimizer on the host the flag was set as gradients arrived.
  bool flags_gradually() const override { return may_skip(); }
  void look_for_overflow() override {
    c_.offloads() ? scalars_.reduce_flag() : DeepSpeedSteps::look_for_overflow();
  }

  void update_states() override {
    if (muon_) muon_->keep_momentum();
    for (std::size_t g = 0; g < groups().size(); ++g) update_group(g);
    release_gradients(false);
  }

  // The optimizer updates the fp32 partition from one flat fp32 copy of the partition's gradients.
  void update_group(std::size_t g) {
    if (c_.offloads()) return states_.update_partition(g, w_.read(states_.host_grad(g)));
    const FlatGroup& group = groups()[g];
    StepSlots& s = step_slots_[g];
    buckets_.drop_accumulated(g, false);
    int grad = buckets_.exact_partition(g);
    if (grad == no_slot) {
      grad = c_.declare_once(s.grad, "step_gradients" + states_.suffix(g), Category::grad,
                             buckets_.flat_type(g), group.partition);
      w_.acquire(grad);
      buckets_.flatten_owned(g, grad);
    }
    buckets_.drop_accumulated(g, true);
    grad = in_master_type(grad, s.grad32, states_.suffix(g));
    states_.update_partition(g, w_.read(grad));
    w_.release(grad);
  }

  void release_gradients(bool skipped) {
    buckets_.release_all(skipped);
    if (muon_) muon_->release_updates();
    w_.drop(scalars_.flag());
  }

  void drop_gradients() override { release_gradients(true); }

  FlatBuckets buckets_;
  std::vector<StepSlots> step_slots_;  // by group
};

}  // namespace

void write_deepspeed_stage12(Program& program, const Deck& deck, const Profile& profile) {
  const PrecisionSpec& precision = deck.zero.precision;
  const bool bf16_optimizer = uses_bf16_optimizer(
      program.stage, precision.model, precision.grad_accum, deck.zero.offload_optimizer.enabled);
  ZeroKnobs knobs = deck.zero.knobs;
  // BF16_Optimizer lays parameters out as they come.
  if (bf16_optimizer) knobs.parameter_alignment = knobs.round_robin_gradients = false;
  const FlatGroups groups(program.model, knobs, dtype_bytes(precision.model), program.mesh);
  for (const FlatGroup& g : groups.groups()) {
    program.partition.padded = checked_add(program.partition.padded, g.padded, "partition");
    program.partition.per_rank += g.partition;
  }
  if (bf16_optimizer) return write_bf16_optimizer(program, deck, profile, groups);
  write_steps(Stage12Schedule(program, deck, profile, groups));
}

}  // namespace shardmark
