// SPDX-License-Identifier: Apache-2.0
// With memory_mode pooled every slot has a fixed place in the one arena of its tier, so that a run
// allocates once and never again. Slots that are alive at the same time, on any path that a run can
// take, lie apart; other slots share memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// Every place starts at a multiple of this, so that no two slots share a cache line or the load of
/// a vector register.
inline constexpr std::int64_t arena_alignment = 256;

/// The same in the host's arena of a program with files, a page: transfers that bypass the page
/// cache take the operands as they lie, and others go piece by piece through a buffer.
inline constexpr std::int64_t file_alignment = 4096;

/// The place of each slot, in bytes from the first multiple of `alignment` in its arena.
struct ArenaLayout {
  EnumArray<Tier, std::int64_t> bytes{};      // size of each tier's arena; 0: none
  EnumArray<Tier, std::int64_t> alignment{};  // of each tier's places
  std::vector<std::int64_t> offset;  // by slot, in its tier's arena; -1: never alive, or a file
  std::int64_t work = 0;  // address sets searched or extended: about n log n for n acquires
  std::int64_t operator[](Tier t) const { return bytes[t]; }
};

/// Pure, so the size of an arena is a figure of the plan. Slots that are alive all the time come
/// first. The others follow from the largest to the smallest, each at the lowest place that is free
/// during its lifetime. An arena is as large as the footprint's peak plus the gaps between slots,
/// and by `file_alignment` larger if its places have that alignment.
ArenaLayout arena_layout(const Program& program);

}  // namespace shardmark
