// SPDX-License-Identifier: Apache-2.0
// Frozen parameters at stages 0 to 2: DeepSpeed keeps them whole on every rank and apart from the
// flat buffers of those that it updates.
#pragma once

#include <core/plan/deepspeed/deepspeed_context.hpp>

namespace shardmark {

/// The slot of these parameters, if there are any.
class FrozenParams {
 public:
  /// Start-up: acquires the slot and writes the first values.
  void init(DeepSpeedContext& context);
  /// The place of a frozen parameter.
  Operand part(const DeepSpeedContext& context, int id) const {
    return context.writer.read(slot_, offset_of_[static_cast<std::size_t>(id)], context.elems(id));
  }

 private:
  int slot_ = no_slot;
  std::vector<std::int64_t> offset_of_;  // by parameter
};

}  // namespace shardmark
