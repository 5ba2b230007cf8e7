// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 0: every rank holds all states. Gradients are all-reduced after the last
// backward of a step, in registration order, in buckets of a fixed size, one after another.
//
// Source: DeepSpeed 0.19's runtime/engine.py, buffered_allreduce_fallback and around it.
#include <core/plan/deepspeed/collectives.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/deepspeed/model_gradients.hpp>
#include <core/plan/deepspeed/stage0/stage0_states.hpp>
#include <core/plan/deepspeed/step_scalars.hpp>
#include <core/plan/write/state_writer.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {
namespace {

class Stage0Schedule final : public StepSchedule {
 public:
  Stage0Schedule(Program& program, const Deck& deck, const Profile& profile)
      : c_(program, deck, profile),
        collectives_(c_),
        grads_(c_),
        scalars_(c_),
        states_(c_, collectives_, grads_, scalars_) {}

  void write() { write_steps(p_, w_, c_.compute, *this); }

 private:
  Gradients between_micros() const override { return Gradients::accumulated; }
  bool may_skip() const override { return c_.precision.model == Dtype::fp16; }
  void end_segment() override { collectives_.end_segment(); }

  void init() override {
    states_.init();
    c_.acquire_persistent();
  }

  void forward(const MicroBatch&) override {
    for (int m : p_.model.computing(VisitKind::pre_forward))
      c_.compute.forward(m, states_.module_params(m));
  }

  void backward(const MicroBatch& micro) override {
    grads_.begin_backward();
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      c_.compute.recompute_before(m, [&](int again) { return states_.module_params(again); });
      grads_.backward(m, states_.module_params(m), !micro.first);
    }
  }

  void after_backward(const MicroBatch& micro) override {
    if (micro.last && !reduces_in_step()) reduce();
  }
  bool reduces_in_step() const override { return !c_.knobs.managed_accumulation; }
  void reduce_in_step() override { reduce(); }

  void reduce() {
    for (int id : states_.updated())  // so that all ranks reduce the same
      if (c_.param(id).use == ParamUse::unused) acquire_zeroed(w_, grads_.slot(id));
    std::vector<int> bucket;
    std::int64_t held = 0;
    for (int id : states_.updated()) {
      bucket.push_back(id);
      held += c_.elems(id);
      if (held <= engine_bucket_elems && id != states_.updated().back()) continue;
      flush(bucket, held);
      bucket.clear();
      held = 0;
    }
  }

  // Several tensors are flattened by a copy, reduced, and divided while they are copied back. A
  // single tensor is reduced in place.
  void flush(const std::vector<int>& bucket, std::int64_t held) {
    const Divisors divisors = collectives_.predivided();
    if (bucket.size() == 1)
      return collectives_.all_reduce(w_.update(grads_.slot(bucket[0])), divisors, bucket,
                                     c_.precision.comm);
    const int flat =
        w_.slot("bucket." + c_.name(bucket[0]), Category::bucket, c_.precision.model, held);
    w_.acquire(flat);
    const Collectives::Divided divided =
        collectives_.divided_by_copies(flat, divisors, c_.precision.comm);
    auto copy = [&](bool back) {
      std::int64_t at = 0;
      for (int id : bucket) {
        const int grad = grads_.slot(id);
        if (back)
          c_.convert(w_.write(grad), c_.read_part(flat, at, c_.elems(id)), divided.copies.after);
        else
          c_.convert(c_.write_part(flat, at, c_.elems(id)), w_.read(grad), divided.copies.before);
        at += c_.elems(id);
      }
    };
    copy(false);
    collectives_.all_reduce(w_.update(flat), divided.reduction, bucket, c_.precision.comm);
    copy(true);
    w_.release(flat);
  }

  std::vector<Operand> all_grads() {
    std::vector<Operand> grads;
    for (int id : states_.updated()) grads.push_back(w_.read(grads_.slot(id)));
    return grads;
  }

  void boundary() override {
    if (may_skip()) scalars_.set_flag(all_grads(), false);  // gradients are equal on all ranks
  }

  void update() override {
    scalars_.acquire(1);
    scalars_.sum_of_squares(0, all_grads());
    // DeepSpeed clips for torch's own optimizer by a helper that averages the norm over ranks.
    if (!c_.has_master() && c_.deck.zero.gradient_clipping > 0)
      scalars_.reduce_sum(0, Dtype::fp32, true);
    scalars_.clip(1);
    states_.update();
    grads_.release_all();
    scalars_.release();
    if (may_skip()) w_.release(scalars_.flag());
  }

  void skip() override {
    grads_.release_all();
    w_.release(scalars_.flag());
  }

  DeepSpeedContext c_;
  Program& p_ = c_.program;
  PlanWriter& w_ = c_.writer;
  Collectives collectives_;
  ModelGradients grads_;
  StepScalars scalars_;
  Stage0States states_;
};

}  // namespace

void write_deepspeed_stage0(Program& program, const Deck& deck, const Profile& profile) {
  program.partition.padded = program.partition.per_rank = program.model.elems;
  Stage0Schedule(program, deck, profile).write();
}

}  // namespace shardmark
