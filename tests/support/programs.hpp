// SPDX-License-Identifier: Apache-2.0
// Small decks and programs for the tests of core/plan/.
#pragma once

#include <core/error.hpp>
#include <core/plan/plan.hpp>

namespace shardmark::test {

/// Moves the states of stage 3 to files, with limits so small that a small model has states that
/// are large enough for a file.
inline void put_in_files(Deck& d, bool optimizer, bool params) {
  if (d.zero.stage < 3) return;
  for (OffloadSpec* o : {&d.zero.offload_optimizer, &d.zero.offload_param}) {
    o->enabled = o->nvme = o == &d.zero.offload_optimizer ? optimizer : params;
    o->buffer_count = 32;
    o->buffer_size = 20'000;
  }
  d.zero.aio.least_bytes = 256;
  d.zero.aio.alignment_bytes = 64;
}

inline Deck gpt2_deck(int stage, std::int64_t layers = 2, bool tied = false) {
  Deck d;
  d.name = "test";
  d.model.family = Family::gpt2;
  d.model.layers = layers;
  d.model.hidden = 24;
  d.model.heads = 3;
  d.model.sequence = 10;
  d.model.vocab = 31;
  d.model.tied_head = tied;
  d.zero.stage = stage;
  d.run.schedule = Schedule::paper;
  return d;
}

inline Batch batch(int world, std::int64_t accumulation = 1, std::int64_t micro = 2) {
  return {world * accumulation * micro, micro, accumulation};
}

inline Program program(const Deck& deck, int world, int rank, std::int64_t accumulation = 1) {
  return build_program(deck, batch(world, accumulation), world, rank, Profile{});
}

/// An operand of an event, counted from 0.
inline const Operand& operand_of(const Program& p, const Event& e, int i) {
  return p.operands[static_cast<std::size_t>(e.operands.first + i)];
}
/// The slot of an event's operand.
inline const Slot& slot_of(const Program& p, const Event& e, int i) {
  return p.slots[static_cast<std::size_t>(operand_of(p, e, i).slot)];
}

/// Segments of one step, one by one, in the order in which the driver runs them.
inline std::vector<int> segments_of(const Step& step, bool skipped) {
  std::vector<int> order;
  for (const SegmentRun& run : runs_of(step, skipped))
    for (std::int64_t t = 0; t < run.times; ++t)
      order.insert(order.end(), run.segments.begin(), run.segments.end());
  return order;
}

/// Returns the first event for which `match` is true, in the segment of that name.
template<class Match>
Event& find_event(Program& p, std::string_view segment, Match match) {
  for (Segment& s : p.segments)
    if (s.name == segment)
      for (Event& e : s.events)
        if (match(e)) return e;
  throw PlanError("test: no such event");
}

/// A deck with knobs so small that even a small model has several buckets, messages and sub-groups.
inline Deck deepspeed_deck(int stage) {
  Deck d = gpt2_deck(stage, 2);
  d.run.schedule = Schedule::deepspeed;
  d.zero.knobs.overlap_comm = stage == 3;
  d.zero.knobs.reduce_bucket_size = 1800;
  d.zero.knobs.prefetch_bucket_size = 1500;
  d.zero.knobs.max_live_parameters = 5000;
  d.zero.knobs.max_reuse_distance = 1500;
  d.zero.knobs.param_persistence_threshold = 30;
  return d;
}

/// A deck of stage 3 whose matrices ZeRO++ can quantize on up to 8 ranks.
inline Deck quantizable_deck(std::int64_t hidden = 64) {
  Deck d = deepspeed_deck(3);
  d.model.hidden = hidden;
  d.model.heads = 2;
  d.model.vocab = 96;
  d.model.sequence = 24;
  return d;
}

}  // namespace shardmark::test
