// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 0: every rank has everything. Gradients are all-reduced after the last backward
// of a step, in registration order, in buckets of a fixed size, one after another.
//
// Source: DeepSpeed 0.19's runtime/engine.py, buffered_allreduce_fallback and around it.
#include <core/plan/deepspeed/deepspeed_writer.hpp>

namespace shardmark {
namespace {

class ReplicatedWriter : public RepeatedStepWriter {
 public:
  using RepeatedStepWriter::RepeatedStepWriter;

  void write() {
    init();
    write_step(checks_);
  }

 private:
  void init() {
    w_.begin(SegmentKind::init, "init", Gradients::none);
    w_.phase(Phase::init);
    const std::int64_t psi = p_.model.elems;
    auto state = [&](const char* name, Category category, Dtype dtype, std::string_view kind) {
      return w_.slot(name, category, dtype, psi, Tier::device, kind);
    };
    param_ = state("param", Category::param, precision_.model, recorded::params);
    master_ = half() ? state("master", Category::master, Dtype::fp32, {}) : param_;
    momentum_ = state("momentum", Category::momentum, Dtype::fp32, {});
    variance_ = state("variance", Category::variance, Dtype::fp32, {});
    std::vector<FlatParam> layout;
    for (int id = 0; id < params(); ++id) layout.push_back({id, p_.model.params[id].first_elem});
    for (auto [kind, slot] :
         {std::pair{State::param, param_}, std::pair{State::master, master_},
          std::pair{State::momentum, momentum_}, std::pair{State::variance, variance_}})
      place_state(p_, kind, slot, 0, layout, 0, psi);
    w_.acquire(param_);
    init_params(w_, p_, param_, 0);
    for (int id = 0; id < params(); ++id) broadcast_bytes(tensor(param_, id, true), id);
    if (half()) {
      w_.acquire(master_);
      w_.compute(Kernel::convert, {w_.write(master_), w_.read(param_)});
    }
    acquire_zeroed(w_, momentum_);
    acquire_zeroed(w_, variance_);
    acquire_shared();
    end(Gradients::none);
  }

  int params() const { return static_cast<int>(p_.model.params.size()); }
  bool half() const { return precision_.model != Dtype::fp32; }
  Operand tensor(int slot, int id, bool reads, bool writes = false) const {
    return w_.part(slot, p_.model.params[id].first_elem, elems(id), reads, writes);
  }
  std::vector<Operand> module_params(int module) const {
    std::vector<Operand> operands;
    for (int id : p_.model.params_of(module)) operands.push_back(tensor(param_, id, true));
    return operands;
  }

  int micro(const char* name, int g) override {
    const bool first = g == 0, last = g == p_.batch.accumulation - 1;
    const int index =
        w_.begin(SegmentKind::micro, name, first ? Gradients::none : Gradients::accumulated);
    w_.phase(Phase::forward, g);
    compute_.begin_micro(g);
    for (int m : p_.model.computing(VisitKind::pre_forward)) compute_.forward(m, module_params(m));
    w_.phase(Phase::backward, g);
    begin_backward();
    for (int m : p_.model.computing(VisitKind::pre_backward)) {
      compute_.recompute_before(m, [&](int again) { return module_params(again); });
      backward(m, module_params(m), !first);
    }
    compute_.end_micro();
    if (last) reduce_all();
    end(last ? Gradients::reduced : Gradients::accumulated);
    return index;
  }

  void reduce_all() {
    std::vector<int> bucket;
    std::int64_t held = 0;
    for (int id = 0; id < params(); ++id) {
      bucket.push_back(id);
      held += elems(id);
      if (held <= engine_bucket_elems && id + 1 < params()) continue;
      flush(bucket, held);
      bucket.clear();
      held = 0;
    }
  }

  // Flattened by a copy, reduced, copied back and divided on the way; a tensor alone is reduced
  // where it lies.
  void flush(const std::vector<int>& bucket, std::int64_t held) {
    if (bucket.size() == 1)
      return all_reduce(w_.update(grad_slot(bucket[0])), predivided(), bucket);
    const int flat = w_.slot("bucket." + name(bucket[0]), Category::bucket, precision_.model, held);
    w_.acquire(flat);
    const Divided divided = beside_copies(flat, predivided());
    auto copy = [&](bool back) {
      std::int64_t at = 0;
      for (int id : bucket) {
        const int grad = grad_slot(id);
        if (back)
          convert(w_.write(grad), read_part(flat, at, elems(id)), divided.copies.after);
        else
          convert(write_part(flat, at, elems(id)), w_.read(grad), divided.copies.before);
        at += elems(id);
      }
    };
    copy(false);
    all_reduce(w_.update(flat), divided.reduction, bucket);
    copy(true);
    w_.release(flat);
  }

  std::vector<Operand> all_grads() {
    std::vector<Operand> grads;
    for (int id = 0; id < params(); ++id) grads.push_back(w_.read(grad_slot(id)));
    return grads;
  }

  int boundary() override {
    const int index = w_.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    w_.phase(Phase::step);
    if (checks_) overflow_flag(all_grads(), false);  // gradients are the same on all ranks
    end(Gradients::reduced);
    return index;
  }

  int update() override {
    const int index = w_.begin(SegmentKind::update, "update", Gradients::reduced);
    w_.phase(Phase::step);
    acquire_step_scalars(1);
    sum_of_squares(0, all_grads());
    // torch's own optimizer is clipped by a helper that averages the norm over ranks.
    if (!half() && deck_.zero.gradient_clipping > 0) reduce_sum(0, Dtype::fp32, true);
    clip(1);
    if (half())
      update_master();
    else
      for (int id = 0; id < params(); ++id)
        adamw(tensor(param_, id, true, true), w_.read(grad_slot(id)),
              tensor(momentum_, id, true, true), tensor(variance_, id, true, true), {id});
    for (int id = 0; id < params(); ++id)
      if (w_.alive(grad_slot(id))) w_.release(grad_slot(id));
    release_step_scalars();
    if (checks_) w_.release(flag());
    end(Gradients::none);
    return index;
  }

  // FP16_Optimizer: one flat fp32 copy of all gradients.
  void update_master() {
    w_.acquire(lazily(grad32_, "grad_fp32", Category::grad, Dtype::fp32, p_.model.elems));
    std::vector<int> all;
    for (int id = 0; id < params(); ++id) {
      w_.compute(Kernel::convert, {tensor(grad32_, id, false, true), w_.read(grad_slot(id))});
      all.push_back(id);
    }
    adamw(w_.update(master_), w_.read(grad32_), w_.update(momentum_), w_.update(variance_), all,
          w_.write(param_));
    w_.release(grad32_);
  }

  int skip() override {
    const int index = w_.begin(SegmentKind::skip, "skip", Gradients::reduced);
    w_.phase(Phase::step);
    for (int id = 0; id < params(); ++id) w_.release(grad_slot(id));
    w_.release(flag());
    end(Gradients::none);
    return index;
  }

  const bool checks_ = precision_.model == Dtype::fp16;
  int param_ = no_slot, master_ = no_slot, momentum_ = no_slot, variance_ = no_slot;
  int grad32_ = no_slot;
};

}  // namespace

void write_deepspeed_replicated(Program& program, const Deck& deck, const Profile& profile) {
  program.partition.padded = program.partition.per_rank = program.model.elems;
  ReplicatedWriter(program, deck, profile).write();
}

}  // namespace shardmark
