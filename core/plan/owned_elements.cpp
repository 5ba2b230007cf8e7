// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/owned_elements.hpp>

namespace shardmark {

std::vector<ElementRange> owned_elements(const Program& program) {
  std::int64_t from = 0, to = program.model.elems;
  if (!program.sharded[static_cast<std::size_t>(State::master)]) {
    // The first ranks take one more; a product of sizes would leave 63 bits.
    const std::int64_t each = to / program.world, more = to % program.world, r = program.rank;
    from = each * r + std::min(more, r);
    to = from + each + (r < more ? 1 : 0);
  }
  std::vector<ElementRange> ranges;
  for (const StatePiece& p : program.states) {
    const std::int64_t first = std::max(p.first_elem, from);
    const std::int64_t end = std::min(p.first_elem + p.elems, to);
    if (p.state != State::master || first >= end) continue;
    if (!ranges.empty() && ranges.back().first + ranges.back().elems == first)
      ranges.back().elems += end - first;
    else
      ranges.push_back({first, end - first});
  }
  return ranges;
}

bool stores_state(Dtype model, State state) {
  return state != State::param || model != Dtype::fp32;
}

std::string checkpoint_slot(State state) {
  return "checkpoint." + std::string(to_string(state));
}

void add_checkpoint_staging(Program& program) {
  std::int64_t elems = 0;
  for (const ElementRange& r : owned_elements(program)) elems += r.elems;
  for (State state : {State::param, State::master, State::momentum, State::variance}) {
    if (!stores_state(program.precision.model, state)) continue;
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
