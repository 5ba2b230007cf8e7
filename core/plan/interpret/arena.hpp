// SPDX-License-Identifier: Apache-2.0
// memory_mode pooled: every slot has a fixed place in one arena a tier, so a run allocates once and
// never again. Slots that are alive at the same time lie apart, on every path that a run may take;
// others share memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// Places start at multiples of this: no two slots share a cache line or a vector register's load.
inline constexpr std::int64_t arena_alignment = 256;

struct ArenaLayout {
  std::array<std::int64_t, tier_count> bytes{};  // of each tier's arena; 0: none
  std::vector<std::int64_t> offset;  // by slot, in its tier's arena; -1: never alive, or a file
  std::int64_t work = 0;  // address sets searched or extended: about n log n for n acquires
  std::int64_t operator[](Tier t) const { return bytes[static_cast<std::size_t>(t)]; }
};

/// Pure: the same on every call, so it is a figure of the plan. What is alive all the time comes
/// first, then the rest from the largest to the smallest, each at the lowest place that is free
/// while it lives. At least the footprint's peak; more by what lies in gaps.
ArenaLayout arena_layout(const Program& program);

}  // namespace shardmark
