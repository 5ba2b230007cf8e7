// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 0: every rank holds all states. Gradients are all-reduced after the last
// backward of a step, in registration order, in buckets of a fixed size, one after another.
//
// Source: DeepSpeed 0.19's runtime/engine.py, buffered_allreduce_fallback and around it.
#include <core/plan/deepspeed/collectives.hpp>
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
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
    const std::int64_t psi = p_.model.elems;
    param_ =
        w_.slot("param", Category::param, c_.precision.model, psi, Tier::device, recorded::params);
    states_ = StateSlots(
        c_.optimizer(),
        [&](std::string_view name, Category category) {
          return w_.slot(std::string(name), category, Dtype::fp32, psi);
        },
        c_.has_master() ? no_slot : param_);
    std::vector<FlatParam> layout;
    for (int id = 0; id < c_.params(); ++id) layout.push_back({id, p_.model.params[id].first_elem});
    place_state(p_, State::param, param_, 0, layout, 0, psi);
    states_.place(p_, 0, layout, 0, psi);
    w_.acquire(param_);
    init_params(w_, p_, param_, 0);
    for (int id = 0; id < c_.params(); ++id) collectives_.broadcast_bytes(tensor(param_, id), id);
    if (c_.has_master()) {
      w_.acquire(states_.master());
      w_.compute(Kernel::convert, {w_.write(states_.master()), w_.read(param_)});
    }
    states_.begin_moments(w_);
    c_.acquire_persistent();
  }

  Operand tensor(int slot, int id) const {
    return c_.read_part(slot, p_.model.params[id].first_elem, c_.elems(id));
  }
  std::vector<Operand> module_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module)) operands.push_back(tensor(param_, id));
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
    if (!micro.last) return;
    std::vector<int> bucket;
    std::int64_t held = 0;
    for (int id = 0; id < c_.params(); ++id) {
      bucket.push_back(id);
      held += c_.elems(id);
      if (held <= engine_bucket_elems && id + 1 < c_.params()) continue;
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
      return collectives_.all_reduce(w_.update(grads_.slot(bucket[0])), divisors, bucket);
    const int flat =
        w_.slot("bucket." + c_.name(bucket[0]), Category::bucket, c_.precision.model, held);
    w_.acquire(flat);
    const Collectives::Divided divided = collectives_.divided_by_copies(flat, divisors);
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
    collectives_.all_reduce(w_.update(flat), divided.reduction, bucket);
    copy(true);
    w_.release(flat);
  }

  std::vector<Operand> all_grads() {
    std::vector<Operand> grads;
    for (int id = 0; id < c_.params(); ++id) grads.push_back(w_.read(grads_.slot(id)));
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
      for (int id = 0; id < c_.params(); ++id)
        scalars_.update(states_.part(w_, p_.model.params[id].first_elem, c_.elems(id),
                                     w_.read(grads_.slot(id))),
                        {id});
    grads_.release_all();
    scalars_.release();
    if (may_skip()) w_.release(scalars_.flag());
  }

  // FP16_Optimizer makes one flat fp32 copy of all gradients.
  void update_master() {
    w_.acquire(c_.declare_once(grad32_, "grad_fp32", Category::grad, Dtype::fp32, p_.model.elems));
    std::vector<int> all;
    for (int id = 0; id < c_.params(); ++id) {
      w_.compute(Kernel::convert,
                 {c_.write_part(grad32_, p_.model.params[id].first_elem, c_.elems(id)),
                  w_.read(grads_.slot(id))});
      all.push_back(id);
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
  int param_ = no_slot, grad32_ = no_slot;
};

}  // namespace

void write_deepspeed_stage0(Program& program, const Deck& deck, const Profile& profile) {
  program.partition.padded = program.partition.per_rank = program.model.elems;
  Stage0Schedule(program, deck, profile).write();
}

}  // namespace shardmark
