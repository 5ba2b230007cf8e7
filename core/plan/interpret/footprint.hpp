// SPDX-License-Identifier: Apache-2.0
// The memory that a program needs: the exact live bytes by tier and category over its events.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// Bytes of one tier by category.
using CategoryBytes = EnumArray<Category, std::int64_t>;

/// The memory that a program needs in one tier, in bytes.
struct TierFootprint {
  std::int64_t peak_bytes = 0;
  CategoryBytes at_peak{};  // sums to peak_bytes: what is live when the peak is first reached
  CategoryBytes category_peaks{};      // each category's own peak, which may be at other events
  std::int64_t pinned_peak_bytes = 0;  // the most bytes that are page-locked at once (host)
  int segment = -1, event = -1;        // where the peak is first reached; -1: the tier is unused
};

/// The memory that a program needs.
struct Footprint {
  EnumArray<Tier, TierFootprint> tiers;
  const TierFootprint& operator[](Tier t) const { return tiers[t]; }
};

/// The peak over all segments, or over those that `only` marks (by segment). Pure. A segment starts
/// with the slots that its entry declares alive.
Footprint footprint(const Program& program, const std::vector<bool>& only = {});

/// Live bytes by tier and category at one end of a segment.
EnumArray<Tier, CategoryBytes> live_at(const Program& program, const EndState& end);

/// Live bytes by tier and category after each event of a segment, in their order.
std::vector<EnumArray<Tier, CategoryBytes>> live_after(const Program& program, int segment);

/// "micro_only, event 57: acquire saved.block3 (b0)", or "nothing" if `segment` is -1.
std::string describe_event(const Program& program, int segment, int event);

/// The part of `bytes` that are model states: param, grad, master, momentum, variance. It tells
/// states that do not fit from buffers that do not.
std::int64_t state_bytes(const CategoryBytes& bytes);

/// Budgets in bytes by tier; empty: no budget.
using Budgets = EnumArray<Tier, std::optional<std::int64_t>>;

/// The bytes that a run allocates in each tier: its arena, or its peak with memory_mode strict.
EnumArray<Tier, std::int64_t> allocated_bytes(const Program& program);

/// Where a budget is first exceeded. Event -1 is the entry of the segment.
struct BudgetOverrun {
  Tier tier;
  int segment, event;
};
std::optional<BudgetOverrun> first_over(const Program& program, const Budgets& budgets);

}  // namespace shardmark
