// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 0: every rank holds all states. Gradients are all-reduced after the last
// backward of a step, in registration order, in buckets of a fixed size, one after another.
//
// Source: DeepSpeed 0.19's runtime/engine.py, buffered_allreduce_fallback and around it.
#include <core/plan/deepspeed/collectives.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/deepspeed/frozen_params.hpp>
#include <core/plan/deepspeed/model_gradients.hpp>
#include <core/plan/deepspeed/step_scalars.hpp>
#include <core/plan/write/state_writer.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {
namespace {

class Stage0Schedule final : public StepSchedule {
 public:
  Stage0Schedule(Program& program, const Deck& deck, const Profile& profile)
      : c_(program, deck, profile), collectives_(c_), grads_(c_), scalars_(c_) {}

  void write() { write_steps(p_, w_, c_.compute, *this); }

 private:
  Gradients between_micros() const override { return Gradients::accumulated; }
  bool may_skip() const override { return c_.precision.model == Dtype::fp16; }
  void end_segment() override { collectives_.end_segment(); }

  void init() override {
    lay_out();
    const std::int64_t psi = updated_;
    param_ =
        w_.slot("param", Category::param, c_.precision.model, psi, Tier::device, recorded::params);
    states_ = StateSlots(
        c_.optimizer(),
        [&](std::string_view name, Category category) {
          return w_.slot(std::string(name), category, Dtype::fp32, psi);
        },
        c_.has_master() ? no_slot : param_);
    place_state(p_, State::param, param_, 0, layout_, 0, psi);
    states_.place(p_, 0, layout_, 0, psi);
    w_.acquire(param_);
    init_params(w_, p_, param_, 0);
    frozen_.init(c_);
    for (int id = 0; id < c_.params(); ++id) collectives_.broadcast_bytes(tensor(id), id);
    if (c_.has_master()) {
      w_.acquire(states_.master());
      w_.compute(Kernel::convert, {w_.write(states_.master()), w_.read(param_)});
    }
    states_.begin_moments(w_);
    if (c_.has_master()) c_.keep_first_sums();
    if (c_.has_master() && !c_.ordered()) step_on_zeros();
    c_.acquire_persistent();
  }

  // Both of DeepSpeed's classes for 16-bit parameters make the optimizer's states by a step on
  // gradients of zero. It counts, and weight decay changes the master, but not the parameters. The
  // engine scales the loss for ZeRO's own optimizers only, while these two classes unscale. Under
  // `ordered`, which exists to compare stages bit by bit, neither is done.
  void step_on_zeros() {
    p_.start_up_updates = 1;
    p_.scales_loss = c_.precision.model != Dtype::fp16;
    acquire_zeroed(w_, declare_grad32());
    scalars_.acquire(0);
    scalars_.clip(0);
    scalars_.update(states_.whole(w_, w_.read(grad32_)), {});
    scalars_.release();
    w_.release(grad32_);
  }
  int declare_grad32() {
    return c_.declare_once(grad32_, "grad_fp32", Category::grad, Dtype::fp32, updated_);
  }

  // Parameters that the optimizer updates lie side by side, in registration order.
  void lay_out() {
    offset_of_.assign(p_.model.params.size(), 0);
    for (int id = 0; id < c_.params(); ++id) {
      if (!c_.param(id).updated()) continue;
      offset_of_[id] = updated_;
      layout_.push_back({id, updated_});
      updated_ += c_.elems(id);
    }
  }

  Operand tensor(int id) const {
    if (!c_.param(id).updated()) return frozen_.part(c_, id);
    return c_.read_part(param_, offset_of_[id], c_.elems(id));
  }
  std::vector<Operand> module_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module)) operands.push_back(tensor(id));
    return operands;
  }

  void forward(const MicroBatch&) override {
    for (int m : p_.model.computing(VisitKind::pre_forward))
      c_.compute.forward(m, module_params(m));
  }

  void backward(const MicroBatch& micro) override {
    grads_.begin_backward();
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      c_.compute.recompute_before(m, [&](int again) { return module_params(again); });
      grads_.backward(m, module_params(m), !micro.first);
    }
  }

  void after_backward(const MicroBatch& micro) override {
    if (micro.last && !reduces_in_step()) reduce();
  }
  bool reduces_in_step() const override { return !c_.knobs.managed_accumulation; }
  void reduce_in_step() override { reduce(); }

  void reduce() {
    for (const FlatParam& f : layout_)  // so that all ranks reduce the same
      if (c_.param(f.param).use == ParamUse::unused) acquire_zeroed(w_, grads_.slot(f.param));
    std::vector<int> bucket;
    std::int64_t held = 0;
    for (const FlatParam& f : layout_) {
      bucket.push_back(f.param);
      held += c_.elems(f.param);
      if (held <= engine_bucket_elems && f.param != layout_.back().param) continue;
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
    for (const FlatParam& f : layout_) grads.push_back(w_.read(grads_.slot(f.param)));
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
    if (c_.has_master())
      update_master();
    else
      for (const FlatParam& f : layout_)
        scalars_.update(
            states_.part(w_, f.offset, c_.elems(f.param), w_.read(grads_.slot(f.param))),
            {f.param});
    grads_.release_all();
    scalars_.release();
    if (may_skip()) w_.release(scalars_.flag());
  }

  // FP16_Optimizer makes one flat fp32 copy of all gradients.
  void update_master() {
    w_.acquire(declare_grad32());
    std::vector<int> all;
    for (const FlatParam& f : layout_) {
      w_.compute(Kernel::convert, {c_.write_part(grad32_, f.offset, c_.elems(f.param)),
                                   w_.read(grads_.slot(f.param))});
      all.push_back(f.param);
    }
    scalars_.update(states_.whole(w_, w_.read(grad32_)), all, w_.write(param_));
    w_.release(grad32_);
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
  StateSlots states_;
  FrozenParams frozen_;
  std::vector<FlatParam> layout_;        // of the parameters that are updated
  std::vector<std::int64_t> offset_of_;  // the same, by parameter
  std::int64_t updated_ = 0;             // their elements
  int param_ = no_slot, grad32_ = no_slot;
};

}  // namespace

void write_deepspeed_stage0(Program& program, const Deck& deck, const Profile& profile) {
  program.partition.padded = program.partition.per_rank = program.model.elems;
  Stage0Schedule(program, deck, profile).write();
}

}  // namespace shardmark
