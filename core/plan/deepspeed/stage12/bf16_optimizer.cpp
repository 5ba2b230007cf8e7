// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's BF16_Optimizer: stage 1 with bf16 parameters and fp32 gradient accumulation. Every
// rank keeps a flat fp32 gradient per parameter group for the whole run. The engine all-reduces it
// once per step, groups in place of tensors; the norm needs no collective, and no overflow is
// looked for. The 16-bit gradients stay alive until the end of the step. With
// `immediate_grad_update`, a hook adds each one to the fp32 gradient as soon as it is ready, and
// drops it.
//
// Source: DeepSpeed 0.19's runtime/bf16_optimizer.py, and recordings of 0.19.8.
#include <core/plan/deepspeed/engine_reduction.hpp>
#include <core/plan/deepspeed/stage12/flat_muon.hpp>
#include <core/plan/deepspeed/stage12/flat_steps.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {

class Bf16Schedule final : public FlatSteps {
 public:
  Bf16Schedule(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : FlatSteps(program, deck, profile, groups) {
    if (is_muon(c_.optimizer())) muon_ = muon_of_exchanged_momentum(c_, states_, full_);
  }

 private:
  Gradients between_micros() const override { return Gradients::accumulated; }
  bool may_skip() const override { return false; }

  void init() override {
    states_.init();
    if (muon_) muon_->init();
    for (std::size_t g = 0; g < groups().size(); ++g) {
      full_.push_back(w_.slot("full_fp32_gradients" + states_.suffix(g), Category::grad,
                              Dtype::fp32, groups()[g].padded, Tier::device,
                              recorded::full_fp32_gradients));
      acquire_zeroed(w_, full_.back());
    }
    c_.keep_first_sums();
    c_.compute.acquire_persistent();
  }

  void backward_module(int module, const MicroBatch& micro) override {
    grads_.backward(module, places(), false);
    for (int id : grads_.ready_after(module)) accumulate(id, micro.first);
  }

  void accumulate(int id, bool first) {
    const int full = full_[states_.flat().group_of(id)];
    const std::int64_t at = states_.flat().offset_of(id);
    const Operand grad = w_.read(grads_.slot(id));
    w_.store(w_.write(full, at, c_.elems(id)), grad, !first);
    if (c_.knobs.immediate_grad_update) w_.release(grads_.slot(id));
  }

  void reduce_step() override {
    std::vector<EngineGradient> list;
    for (std::size_t g = 0; g < groups().size(); ++g)
      list.push_back({full_[g], groups()[g].params, states_.suffix(g)});
    reduce_by_engine(c_, list);
  }

  int gradient_sets() const override { return 1; }
  std::vector<Operand> gradients(int, bool) const override {
    std::vector<Operand> grads;
    for (int full : full_) grads.push_back(w_.read(full));
    return grads;
  }

  void update_states() override {
    for (std::size_t g = 0; g < groups().size(); ++g)
      states_.update_partition(g, w_.read(full_[g], states_.own_first(g), groups()[g].partition),
                               states_.has_matrices(g));
  }
  void gather_params() override {
    states_.gather_params();
    grads_.release_all();
  }
  void drop_gradients() override {}

  std::vector<int> full_;  // by group: the fp32 gradient of the whole group
};

}  // namespace

void write_bf16_optimizer(Program& program, const Deck& deck, const Profile& profile,
                          const FlatGroups& groups) {
  write_steps(Bf16Schedule(program, deck, profile, groups));
}

}  // namespace shardmark
