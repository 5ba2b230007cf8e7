// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/frozen_params.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void FrozenParams::init(DeepSpeedContext& context) {
  offset_of_.assign(context.program.model.params.size(), 0);
  std::vector<FlatParam> layout;
  std::int64_t end = 0;
  for (int id = 0; id < context.params(); ++id) {
    if (context.param(id).updated()) continue;
    offset_of_[static_cast<std::size_t>(id)] = end;
    layout.push_back({id, end});
    end += context.elems(id);
  }
  if (end == 0) return;
  slot_ = context.writer.slot("param.frozen", Category::param, context.precision.model, end,
                              Tier::device, recorded::params);
  const std::size_t first_piece = context.program.states.size();
  place_state(context.program, State::param, slot_, 0, layout, 0, end);
  context.writer.acquire(slot_);
  init_params(context.writer, context.program, slot_, first_piece);
}

}  // namespace shardmark
