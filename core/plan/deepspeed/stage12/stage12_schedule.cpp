// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stages 1 and 2: parameter groups as flat buffers, gradients through buckets. By
// default a bucket is all-reduced and each rank keeps what it owns; there is no reduce-scatter.
// Stage 1 reduces after the last backward of a step, stage 2 in every one.
//
// Source: DeepSpeed 0.19's runtime/zero/stage_1_and_2.py, and recordings of 0.19.8.
#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>

namespace shardmark {
namespace {

class FlatWriter : public FlatGradients {
 public:
  FlatWriter(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : FlatGradients(program, deck, profile, groups), slots_(groups.groups().size()) {}

  void write() {
    init();
    write_step(precision_.check_overflow);
  }

 private:
  struct StepSlots {
    int grad = no_slot, grad32 = no_slot;
  };

  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    init_states();
    acquire_offload();
    acquire_shared();
    end(Gradients::none);
  }

  int micro(const char* name, int g) override {
    const bool first = g == 0, last = g == p_.batch.accumulation - 1;
    begin_gradients(first, last);
    const Gradients pending = stage() == 2 ? Gradients::reduced : Gradients::accumulated;
    const int index = w_.begin(SegmentKind::micro, name, first ? Gradients::none : pending);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    for (int m : p_.model.computing(VisitKind::pre_forward)) compute_.forward(m, module_params(m));
    w_.phase(Phase::backward, g);
    begin_backward();
    if (offloads() && last) begin_looking(sums(), precision_.check_overflow);
    const bool reduces = stage() == 2 || last;
    const bool as_ready = reduces && (stage() == 2 || knobs_.overlap_comm);
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      compute_.recompute_before(m, [&](int again) { return module_params(again); });
      acquire_buckets();
      backward(m, module_params(m), stage() == 1 && !first && !separate_accum());
      for (int id : ready_after(m)) {
        if (stage() == 1 && separate_accum()) accumulate_locally(id);
        if (as_ready) add_to_bucket(id);
      }
    }
    compute_.end_micro();
    if (reduces && !as_ready)  // in the optimizer's order
      for (const FlatGroup& group : groups())
        for (int id : group.params) add_to_bucket(id);
    if (reduces) epilogue();
    end(last ? Gradients::reduced : pending);
    return index;
  }

  int boundary() override {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    w_.phase(Phase::step);
    if (offloads()) {
      if (precision_.check_overflow) reduce_flag();
    } else if (precision_.check_overflow) {
      std::vector<Operand> grads;
      for (std::size_t g = 0; g < groups().size(); ++g)
        for (const Operand& o : owned_grads(g)) grads.push_back(o);
      overflow_flag(grads, true);
    }
    end(Gradients::reduced);
    return index;
  }

  int update() override {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    if (!offloads()) acquire_step_scalars(sums());
    for (int g = 0; g < sums(); ++g) {
      if (!offloads()) sum_of_squares(g, owned_grads(g));
      reduce_sum(g, Dtype::fp32, false);
    }
    offloads() ? clip_on_host(sums(), false) : clip(sums());
    for (std::size_t g = 0; g < groups().size(); ++g) update_group(g);
    release_gradients();
    gather_params();
    release_step_scalars();
    end(Gradients::none);
    return index;
  }

  // One flat copy of the partition's gradients, in fp32, for Adam on the fp32 partition.
  void update_group(std::size_t g) {
    if (offloads()) return update_partition(g, w_.read(states_[g].grad));
    const FlatGroup& group = groups()[g];
    StepSlots& s = slots_[g];
    int grad = part32_[g];
    if (!exact_partition(g)) {
      grad = lazily(s.grad, "step_gradients" + suffix(g), Category::grad, precision_.model,
                    group.partition);
      w_.acquire(grad);
      flatten(g, grad);
    }
    if (w_[grad].dtype != Dtype::fp32) {
      w_.acquire(lazily(s.grad32, "step_gradients_fp32" + suffix(g), Category::grad, Dtype::fp32,
                        group.partition));
      w_.compute(Kernel::convert, {w_.write(s.grad32), w_.read(grad)});
      w_.release(grad);
      grad = s.grad32;
    }
    update_partition(g, w_.read(grad));
    w_.release(grad);
  }

  void flatten(std::size_t g, int into) {
    const FlatGroup& group = groups()[g];
    std::int64_t covered = 0;
    for (const FlatParam& f : group.layout) covered += flat_.owned(f.param, p_.rank).elems;
    if (covered < group.partition) w_.compute(Kernel::zero, {w_.write(into)});
    for (const FlatParam& f : group.layout)
      if (const OwnedSlice own = flat_.owned(f.param, p_.rank); own.elems > 0)
        w_.compute(Kernel::convert,
                   {write_part(into, f.offset + own.first - own_first(g), own.elems),
                    read_part(part_, part_offset_[f.param] + own.first, own.elems)});
  }

  void release_gradients() {
    if (part_ != no_slot && w_.alive(part_)) w_.release(part_);
    for (int part : part32_)
      if (part != no_slot && w_.alive(part)) w_.release(part);
    if (precision_.check_overflow) w_.release(flag());
  }

  int skip() override {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    release_gradients();
    release_step_scalars();
    end(Gradients::none);
    return index;
  }

  // Sums of squares: one a group.
  int sums() const { return knobs_.compute_grad_norm ? static_cast<int>(groups().size()) : 0; }

  std::vector<StepSlots> slots_;  // by group
};

}  // namespace

void write_deepspeed_bf16(Program&, const Deck&, const Profile&, const FlatGroups&);

void write_deepspeed_flat(Program& program, const Deck& deck, const Profile& profile) {
  const PrecisionSpec& precision = deck.zero.precision;
  // DeepSpeed has a second optimizer class for this one combination. It lays parameters
  // out as they come.
  const bool bf16_optimizer = program.stage == 1 && precision.model == Dtype::bf16 &&
                              precision.grad_accum == Dtype::fp32 &&
                              !deck.zero.offload_optimizer.enabled;
  ZeroKnobs knobs = deck.zero.knobs;
  if (bf16_optimizer) knobs.parameter_alignment = knobs.round_robin_gradients = false;
  const FlatGroups groups(program.model, knobs, dtype_bytes(precision.model), program.world);
  for (const FlatGroup& g : groups.groups()) {
    program.partition.padded = checked_add(program.partition.padded, g.padded, "partition");
    program.partition.per_rank += g.partition;
  }
  if (bf16_optimizer) return write_deepspeed_bf16(program, deck, profile, groups);
  FlatWriter(program, deck, profile, groups).write();
}

}  // namespace shardmark
