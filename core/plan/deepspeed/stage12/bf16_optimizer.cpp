// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's BF16_Optimizer: stage 1 with bf16 parameters and fp32 gradient accumulation. Every
// rank keeps a flat fp32 gradient per parameter group for the whole run. The engine all-reduces it
// once per step in buckets of groups; the norm needs no collective, and no overflow is looked for.
// The 16-bit gradients stay alive until the end of the step. With `immediate_grad_update`, a hook
// adds each one to the fp32 gradient as soon as it is ready, and drops it.
//
// Source: DeepSpeed 0.19's runtime/bf16_optimizer.py, and recordings of 0.19.8.
#include <core/plan/deepspeed/model_gradients.hpp>
#include <core/plan/deepspeed/stage12/bf16_optimizer.hpp>
#include <core/plan/deepspeed/stage12/partitioned_muon.hpp>
#include <core/plan/deepspeed/stage12/stage12_states.hpp>
#include <core/plan/write/state_writer.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {
namespace {

class Bf16Schedule final : public StepSchedule {
 public:
  Bf16Schedule(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : c_(program, deck, profile),
        collectives_(c_),
        grads_(c_),
        scalars_(c_),
        states_(c_, collectives_, scalars_, groups),
        muon_(c_, states_, scalars_) {}

  void write() { write_steps(c_.program, w_, c_.compute, *this); }

 private:
  const std::vector<FlatGroup>& groups() const { return states_.groups(); }
  Gradients between_micros() const override { return Gradients::accumulated; }
  bool may_skip() const override { return false; }
  void end_segment() override { collectives_.end_segment(); }

  void init() override {
    states_.init();
    muon_.init();
    for (std::size_t g = 0; g < groups().size(); ++g) {
      full_.push_back(w_.slot("full_fp32_gradients" + states_.suffix(g), Category::grad,
                              Dtype::fp32, groups()[g].padded, Tier::device,
                              recorded::full_fp32_gradients));
      acquire_zeroed(w_, full_.back());
    }
    c_.keep_first_sums();
    c_.acquire_persistent();
  }

  void forward(const MicroBatch&) override {
    for (int m : c_.program.model.computing(VisitKind::pre_forward))
      c_.compute.forward(m, states_.module_params(m));
  }

  void backward(const MicroBatch& micro) override {
    grads_.begin_backward();
    for (int m : c_.program.model.computing(VisitKind::pre_backward)) {
      c_.compute.recompute_before(m, [&](int again) { return states_.module_params(again); });
      grads_.backward(m, states_.module_params(m), false);
      for (int id : grads_.ready_after(m)) accumulate(id, micro.first);
    }
  }

  void accumulate(int id, bool first) {
    const int full = full_[states_.flat().group_of(id)];
    const std::int64_t at = states_.flat().offset_of(id);
    const Operand grad = w_.read(grads_.slot(id));
    if (first)
      w_.compute(Kernel::convert, {c_.write_part(full, at, c_.elems(id)), grad});
    else
      w_.compute(Kernel::accumulate, {c_.update_part(full, at, c_.elems(id)), grad});
    if (c_.knobs.immediate_grad_update) w_.release(grads_.slot(id));
  }

  // Buckets are filled as at stage 0, but with groups instead of tensors.
  void after_backward(const MicroBatch& micro) override {
    if (micro.last && !reduces_in_step()) reduce();
  }
  bool reduces_in_step() const override { return !c_.knobs.managed_accumulation; }
  void reduce_in_step() override { reduce(); }

  void reduce() {
    std::vector<std::size_t> bucket;
    std::int64_t held = 0;
    for (std::size_t g = 0; g < groups().size(); ++g) {
      bucket.push_back(g);
      held += groups()[g].padded;
      if (held <= engine_bucket_elems && g + 1 < groups().size()) continue;
      flush(bucket, held);
      bucket.clear();
      held = 0;
    }
  }

  // Several groups of one bucket are flattened by a copy.
  void flush(const std::vector<std::size_t>& bucket, std::int64_t held) {
    const Divisors divisors = collectives_.predivided();
    if (bucket.size() == 1)
      return collectives_.all_reduce(w_.update(full_[bucket[0]]), divisors,
                                     groups()[bucket[0]].params, c_.precision.comm);
    const int flat =
        w_.slot("bucket" + states_.suffix(bucket[0]), Category::bucket, Dtype::fp32, held);
    w_.acquire(flat);
    std::vector<int> params;
    const Collectives::Divided divided =
        collectives_.divided_by_copies(flat, divisors, c_.precision.comm);
    auto copy = [&](bool back) {
      std::int64_t at = 0;
      for (std::size_t g : bucket) {
        const std::int64_t size = groups()[g].padded;
        if (back)
          c_.convert(w_.write(full_[g]), c_.read_part(flat, at, size), divided.copies.after);
        else
          c_.convert(c_.write_part(flat, at, size), w_.read(full_[g]), divided.copies.before);
        at += size;
      }
    };
    for (std::size_t g : bucket)
      params.insert(params.end(), groups()[g].params.begin(), groups()[g].params.end());
    copy(false);
    collectives_.all_reduce(w_.update(flat), divided.reduction, params, c_.precision.comm);
    copy(true);
    w_.release(flat);
  }

  void boundary() override {}

  void update() override {
    scalars_.acquire(1);
    std::vector<Operand> grads;
    for (int full : full_) grads.push_back(w_.read(full));
    scalars_.sum_of_squares(0, grads);
    scalars_.clip(1);
    for (std::size_t g = 0; g < groups().size(); ++g) muon_.make_updates(g, full_[g]);
    for (std::size_t g = 0; g < groups().size(); ++g)
      states_.update_partition(g,
                               c_.read_part(full_[g], states_.own_first(g), groups()[g].partition),
                               states_.has_matrices(g));
    states_.gather_params();
    grads_.release_all();
    scalars_.release();
  }

  DeepSpeedContext c_;
  PlanWriter& w_ = c_.writer;
  Collectives collectives_;
  ModelGradients grads_;
  StepScalars scalars_;
  FlatStates states_;
  PartitionedMuon muon_;
  std::vector<int> full_;  // by group: the fp32 gradient of the whole group
};

}  // namespace

void write_bf16_optimizer(Program& program, const Deck& deck, const Profile& profile,
                          const FlatGroups& groups) {
  Bf16Schedule(program, deck, profile, groups).write();
}

}  // namespace shardmark
