// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's stage 0: every rank holds all states. Gradients are all-reduced after the last
// backward of a step, in registration order, in buckets of a fixed size, one after another. Those
// of what fewer ranks hold come last, over these ranks.
//
// Source: DeepSpeed 0.19's runtime/engine.py, buffered_allreduce_fallback and around it.
#include <core/plan/deepspeed/deepspeed_schedule.hpp>
#include <core/plan/deepspeed/deepspeed_steps.hpp>
#include <core/plan/deepspeed/engine_reduction.hpp>
#include <core/plan/deepspeed/stage0/stage0_states.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class Stage0Schedule final : public DeepSpeedSteps {
 public:
  Stage0Schedule(Program& program, const Deck& deck, const Profile& profile)
      : DeepSpeedSteps(program, deck, profile), states_(c_) {}

 private:
  Gradients between_micros() const override { return Gradients::accumulated; }
  // DeepSpeed's classes for 16-bit parameters always look at the gradients, but what they do after
  // an overflow is modelled where ranks tell each other about it.
  bool may_skip() const override { return looks_for_overflow(); }
  bool looks_for_overflow() const override {
    return c_.precision.model == Dtype::fp16 || (c_.divided() && c_.has_master());
  }

  void init() override {
    states_.init();
    c_.compute.acquire_persistent();
  }

  Operand whole_param(int id) const override { return states_.param(id); }

  void backward_module(int module, const MicroBatch& micro) override {
    grads_.backward(module, places(), !micro.first);
  }

  void reduce_step() override {
    for (int id : states_.updated())
      if (c_.folds() && c_.param(id).trained())
        collectives_.correct_folded(id, w_.update(grads_.slot(id)));
    for (const Holders holders : all_values<Holders>) {
      std::vector<EngineGradient> list;
      for (int id : states_.updated()) {
        if (c_.param(id).holders != holders) continue;
        const int grad = grads_.slot(id);
        // so that all ranks reduce the same
        if (c_.param(id).use == ParamUse::unused) acquire_zeroed(w_, grad);
        list.push_back({grad, {id}, "." + c_.name(id)});
      }
      reduce_by_engine(c_, list, holders);
    }
  }

  // The second set has what fewer ranks hold.
  int gradient_sets() const override { return c_.program.kinds_of_holders(); }
  std::vector<Operand> gradients(int set, bool counted) const override {
    const Holders holders = all_values<Holders>[static_cast<std::size_t>(set)];
    std::vector<Operand> grads;
    for (int id : states_.updated())
      if (c_.param(id).holders == holders && (!counted || c_.counts(id)))
        grads.push_back(w_.read(grads_.slot_of(id)));
    return grads;
  }

  // Among DeepSpeed's optimizers of stage 0, only the class for its own Adam counts the second set
  // in the norm. In fp32 DeepSpeed computes no norm unless it clips.
  int sums() const override {
    return c_.has_master() && !c_.deck.zero.optimizer.unfused ? gradient_sets() : 1;
  }

  // DeepSpeed clips for torch's own optimizer by a helper that averages the norm over ranks.
  void reduce_sum(int sum) override {
    const bool shares_first = c_.folds() && c_.has_master();
    if (gradient_sets() > 1 && sum == 0 && !shares_first) return;
    if (!c_.has_master() && c_.deck.zero.gradient_clipping > 0)
      scalars_.average_sum(sum, Dtype::fp32, of_partition, c_.program.norm_group());
    else
      scalars_.add_up_parts(sum, Dtype::fp32);
  }

  void update_states() override {
    states_.update();
    grads_.release_all();
  }
  void drop_gradients() override { grads_.release_all(); }

  Stage0States states_;
};

}  // namespace

void write_deepspeed_stage0(Program& program, const Deck& deck, const Profile& profile) {
  program.partition.padded = program.partition.per_rank = program.model.elems;
  write_steps(Stage0Schedule(program, deck, profile));
}

}  // namespace shardmark
