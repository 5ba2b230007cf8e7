// SPDX-License-Identifier: Apache-2.0
#include <core/plan/write/state_slots.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

Category category_of(State state) {
  static constexpr auto categories =
      enum_table<State>(Category::param, Category::master, Category::momentum, Category::variance);
  return categories[state];
}

Event& write_update(PlanWriter& writer, Optimizer optimizer, const UpdatePlaces& places, int clip,
                    std::span<const int> params, std::optional<Operand> rounded) {
  std::vector<Operand> operands{places.master, places.grad};
  operands.insert(operands.end(), places.moments.begin(), places.moments.end());
  if (clip != no_slot) operands.push_back(writer.read(clip));
  if (rounded) operands.push_back(*rounded);
  return writer.compute(traits(optimizer).kernel, operands, params);
}

void StateSlots::place(Program& program, std::int64_t master_at, std::int64_t at,
                       std::span<const FlatParam> layout, std::int64_t first,
                       std::int64_t elems) const {
  place_state(program, State::master, master(), master_at, layout, first, elems);
  const std::span<const State> states = traits(optimizer_).moments;
  for (std::size_t i = 0; i < states.size(); ++i)
    place_state(program, states[i], moments()[i], at, layout, first, elems);
}

void StateSlots::begin_moments(PlanWriter& writer) const {
  for (int slot : all().subspan(1)) acquire_zeroed(writer, slot);
}

UpdatePlaces StateSlots::part(const PlanWriter& writer, std::int64_t master_at, std::int64_t at,
                              std::int64_t elems, Operand grad) const {
  UpdatePlaces places{writer.update(master(), master_at, elems), grad, {}};
  for (int slot : moments()) places.moments.push_back(writer.update(slot, at, elems));
  return places;
}

}  // namespace shardmark
