// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/model_gradients.hpp>

namespace shardmark {

ModelGradients::ModelGradients(DeepSpeedContext& context)
    : DeepSpeedPart(context),
      uses_(context.program.model.params.size()),
      order_(gradient_ready_order(
          context.program.model,
          context.precision.autocast.dtype.has_value() ||
              (context.stage() == 3 && context.knobs.memory_efficient_linear))) {
  const ModelShape& model = c_.program.model;
  for (int m : model.computing(VisitKind::pre_backward))
    for (int id : model.params_of(m)) ++uses_[id];
}

int ModelGradients::slot(int param) {
  return c_.declare_once(slots_[param], "grad." + c_.name(param), Category::grad,
                         c_.precision.model, c_.elems(param), recorded::grads);
}

void ModelGradients::begin_backward() {
  next_ready_ = 0;
  uses_left_ = uses_;
  begun_.clear();
}

void ModelGradients::backward(int module, const ParamPlaces& where, bool adds) {
  std::vector<Operand> grads;
  for (int id : c_.program.model.trained_params_of(module)) {
    const int grad = slot(id);
    if (!w_.alive(grad)) w_.acquire(grad);
    const bool begun = !begun_.insert(id).second;
    grads.push_back(w_.whole(grad, adds || begun, true));
  }
  c_.compute.backward(module, where, grads);
}

std::vector<int> ModelGradients::ready_after(int module) {
  for (int id : c_.program.model.params_of(module)) --uses_left_[id];
  std::vector<int> ready;
  while (next_ready_ < order_.size() && uses_left_[order_[next_ready_]] <= 0)
    ready.push_back(order_[next_ready_++]);
  return ready;
}

void ModelGradients::release_all() {
  for (int grad : slots_) w_.drop(grad);
}

}  // namespace shardmark
