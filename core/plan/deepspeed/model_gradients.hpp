// SPDX-License-Identifier: Apache-2.0
// The gradients as backward makes them: one tensor per parameter, in the model's type, ready in the
// order that DeepSpeed sees.
#pragma once

#include <set>
#include <vector>

#include <core/plan/deepspeed/deepspeed_context.hpp>

namespace shardmark {

/// Writes backward, and knows the slot of each gradient and when it is ready.
class ModelGradients : private DeepSpeedPart {
 public:
  explicit ModelGradients(DeepSpeedContext& context);

  /// The slot of a parameter's gradient. Whether it lives between micro-batches is up to the stage.
  int slot(int param);
  /// The slot of a parameter's gradient, which `slot` has declared.
  int slot_of(int param) const { return slots_[static_cast<std::size_t>(param)]; }
  /// To be called before the first backward of each micro-batch.
  void begin_backward();
  /// Writes one module's backward; `adds` if earlier micro-batches left gradients to add to.
  void backward(int module, const ParamPlaces& where, bool adds);
  /// The parameters whose gradients became ready with `module`'s backward.
  std::vector<int> ready_after(int module);
  /// Releases the gradients that are alive.
  void release_all();

 private:
  std::vector<int> slots_ = c_.no_slots();  // by parameter
  std::vector<int> uses_;                   // by parameter: the number of modules that use it
  std::vector<int> order_;                  // in which gradients become ready
  std::size_t next_ready_ = 0;
  std::vector<int> uses_left_;  // in this backward
  std::set<int> begun_;         // gradients that this backward has written to
};

}  // namespace shardmark
