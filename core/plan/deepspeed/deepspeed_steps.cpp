// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/deepspeed_steps.hpp>

namespace shardmark {

void DeepSpeedSteps::begin_backward(const MicroBatch& micro) {
  grads_.begin_backward();
  if (c_.offloads() && micro.last) scalars_.begin_gradually(sums(), flags_gradually());
}

void DeepSpeedSteps::boundary() {
  if (looks_for_overflow()) look_for_overflow();
}

std::vector<Operand> DeepSpeedSteps::all_gradients() const {
  std::vector<Operand> all;
  for (int set = 0; set < gradient_sets(); ++set)
    for (const Operand& grad : gradients(set, false)) all.push_back(grad);
  return all;
}

// At stage 0 gradients, and so the flags, are equal on all ranks.
void DeepSpeedSteps::look_for_overflow() {
  scalars_.set_flag(all_gradients(), c_.stage() > 0);
}

void DeepSpeedSteps::update() {
  make_muon_updates(MuonMoment::before_norm);
  take_norm();
  make_muon_updates(MuonMoment::after_norm);
  update_states();
  gather_params();
  release_scalars();
}

// With the optimizer on the host the squares were added up as gradients arrived.
void DeepSpeedSteps::take_norm() {
  const bool offloads = c_.offloads();
  if (!offloads) scalars_.acquire(sums());
  for (int sum = 0; sum < sums(); ++sum) {
    if (!offloads) scalars_.sum_of_squares(sum, gradients(sum, true));
    reduce_sum(sum);
  }
  offloads ? scalars_.clip_on_host(sums(), clips_on_both())
           : scalars_.clip(sums(), params_of_sums());
}

int DeepSpeedSteps::in_master_type(int grad, int& converted, const std::string& suffix) {
  const Dtype master = c_.precision.master;
  if (w_[grad].dtype == master) return grad;
  w_.acquire(c_.declare_once(converted, "step_gradients_" + std::string(to_string(master)) + suffix,
                             Category::grad, master, w_[grad].elems));
  w_.convert(w_.write(converted), w_.read(grad));
  w_.release(grad);
  return converted;
}

void DeepSpeedSteps::skip() {
  if (!looks_for_overflow()) take_norm();
  drop_gradients();
  release_scalars();
}

void DeepSpeedSteps::release_scalars() {
  scalars_.release();
  w_.drop(scalars_.flag());
}

}  // namespace shardmark
