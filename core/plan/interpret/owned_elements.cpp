// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/interpret/owned_elements.hpp>

namespace shardmark {

std::vector<ElementRange> owned_elements(const Program& program) {
  const bool sharded = program.sharded[State::master];
  const std::int64_t holders =
      sharded ? program.shard_ranks : 1;  // ranks that hold one copy together
  const std::int64_t copies = program.partition_ranks() / holders,
                     copy = program.partition_rank() / holders;
  std::int64_t held = 0;
  for (const StatePiece& p : program.states)
    if (p.state == State::master) held += p.elems;
  // The first copies write one element more. A product of sizes could exceed 63 bits.
  const std::int64_t each = held / copies, more = held % copies;
  const std::int64_t from = each * copy + std::min(more, copy);
  const std::int64_t to = from + each + (copy < more ? 1 : 0);
  std::vector<ElementRange> ranges;
  std::int64_t at = 0;  // among the elements that are held
  for (const StatePiece& p : program.states) {
    if (p.state != State::master) continue;
    const std::int64_t begin = std::max(from - at, std::int64_t{0});
    const std::int64_t elems = std::min(to - at, p.elems) - begin;
    at += p.elems;
    if (elems <= 0) continue;
    const std::int64_t first = p.first_elem + begin;
    if (!ranges.empty() && ranges.back().first + ranges.back().elems == first)
      ranges.back().elems += elems;
    else
      ranges.push_back({first, elems});
  }
  return ranges;
}

std::vector<State> stored_states(Dtype model, Optimizer optimizer) {
  std::vector<State> states(all_values<State>.begin(), all_values<State>.end());
  std::erase_if(states, [&](State s) { return !stores_state(model, optimizer, s); });
  return states;
}

bool stores_state(Dtype model, Optimizer optimizer, State state) {
  if (state == State::param) return model != Dtype::fp32;
  return state == State::master || has_moment(optimizer, state);
}

std::string checkpoint_slot(State state) {
  return "checkpoint." + std::string(to_string(state));
}

void add_checkpoint_staging(Program& program) {
  std::int64_t elems = 0;
  for (const ElementRange& r : owned_elements(program)) elems += r.elems;
  for (State state : stored_states(program.precision.model, program.optimizer)) {
    const auto id = static_cast<std::int32_t>(program.slots.size());
    Slot slot;
    slot.name = checkpoint_slot(state);
    slot.tier = Tier::host;
    slot.category = Category::staging;
    slot.dtype = state == State::param ? program.precision.model : Dtype::fp32;
    slot.elems = elems;
    program.slots.push_back(slot);
    Event acquire;
    acquire.op = Op::acquire;
    acquire.tier = slot.tier, acquire.category = slot.category, acquire.dtype = slot.dtype;
    acquire.slot = id;
    acquire.elems = elems;
    program.segments[0].events.push_back(acquire);
    for (Segment& s : program.segments) {
      if (s.kind != SegmentKind::init) s.entry.alive.push_back(id);
      s.exit.alive.push_back(id);
    }
  }
}

}  // namespace shardmark
