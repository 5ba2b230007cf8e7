// SPDX-License-Identifier: Apache-2.0
// The memory that a program needs, to the byte: live bytes by tier and category over its events.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

using CategoryBytes = EnumArray<Category, std::int64_t>;

struct TierFootprint {
  std::int64_t peak_bytes = 0;
  CategoryBytes at_peak{};  // sums to peak_bytes: what is live when the peak is first reached
  CategoryBytes category_peaks{};      // each category's own peak, at whatever event
  std::int64_t pinned_peak_bytes = 0;  // the most that is page-locked at once (host)
  int segment = -1, event = -1;        // where the peak is first reached; -1: nothing of this tier
};

struct Footprint {
  EnumArray<Tier, TierFootprint> tiers;
  const TierFootprint& operator[](Tier t) const { return tiers[t]; }
};

/// Peak over all segments, or over those that `only` marks (by segment). Pure; a segment starts
/// from what its entry declares alive.
Footprint footprint(const Program& program, const std::vector<bool>& only = {});

/// Live bytes by category of both tiers at a segment's exit.
std::array<CategoryBytes, tier_count> live_at(const Program& program, const EndState& end);

/// Live bytes by category of both tiers after each event of a segment, in their order.
std::vector<std::array<CategoryBytes, tier_count>> live_after(const Program& program, int segment);

/// "micro_only, event 57: acquire saved.block3 (b0)", or "nothing" where segment is -1.
std::string describe_event(const Program& program, int segment, int event);

/// Bytes of model states (param, grad, master, momentum, variance) at the tier's peak: tells apart
/// states that do not fit from buffers that do not.
std::int64_t state_bytes(const CategoryBytes& bytes);

/// Budgets by tier in bytes; empty: none.
using Budgets = EnumArray<Tier, std::optional<std::int64_t>>;

/// What a run of the program allocates of each tier: its arena, or its peak (memory_mode strict).
std::array<std::int64_t, tier_count> allocated_bytes(const Program& program);

/// The event at which a budget is first exceeded; -1: at the segment's entry.
struct BudgetOverrun {
  Tier tier;
  int segment, event;
};
std::optional<BudgetOverrun> first_over(const Program& program, const Budgets& budgets);

}  // namespace shardmark
