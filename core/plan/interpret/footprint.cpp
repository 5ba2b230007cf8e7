// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/printable.hpp>

namespace shardmark {
namespace {

// The live bytes during a walk over events.
class Live {
 public:
  Live(const Program& program, const EndState& entry) : bytes_(live_at(program, entry)) {
    for (const Tier t : all_values<Tier>)
      total_[t] = std::accumulate(bytes_[t].begin(), bytes_[t].end(), std::int64_t{0});
    for (std::int32_t s : entry.alive)
      if (program.slots[s].pinned) pinned_[program.slots[s].tier] += bytes_of(program, s);
  }
  // Returns whether the event changes any figure.
  bool apply(const Program& program, const Event& e) {
    if (e.op != Op::acquire && e.op != Op::release) return false;
    const std::int64_t bytes = bytes_of(program, e.slot) * (e.op == Op::acquire ? 1 : -1);
    bytes_[e.tier][e.category] += bytes;
    total_[e.tier] += bytes;
    if (program.slots[e.slot].pinned) pinned_[e.tier] += bytes;
    return true;
  }
  std::int64_t total(Tier tier) const { return total_[tier]; }
  std::int64_t pinned(Tier tier) const { return pinned_[tier]; }
  const CategoryBytes& by_category(Tier tier) const { return bytes_[tier]; }

 private:
  static std::int64_t bytes_of(const Program& program, std::int32_t slot) {
    return alloc_bytes(program.slots[slot]);
  }
  EnumArray<Tier, CategoryBytes> bytes_{};
  EnumArray<Tier, std::int64_t> total_{}, pinned_{};
};

// Calls `look(segment, event, live)` before the first event (-1) and after each one that acquires
// or releases, until it returns false.
template<class Look>
void walk(const Program& program, const std::vector<bool>& only, Look look) {
  for (int s = 0; s < static_cast<int>(program.segments.size()); ++s) {
    if (!only.empty() && !only[s]) continue;
    const Segment& segment = program.segments[s];
    Live live(program, segment.entry);
    if (!look(s, -1, live)) return;
    for (int e = 0; e < static_cast<int>(segment.events.size()); ++e) {
      if (live.apply(program, segment.events[e]) && !look(s, e, live)) return;
    }
  }
}

}  // namespace

EnumArray<Tier, CategoryBytes> live_at(const Program& program, const EndState& end) {
  EnumArray<Tier, CategoryBytes> bytes{};
  for (std::int32_t s : end.alive) {
    const Slot& slot = program.slots[s];
    bytes[slot.tier][slot.category] += alloc_bytes(slot);
  }
  return bytes;
}

std::int64_t state_bytes(const CategoryBytes& bytes) {
  std::int64_t sum = 0;
  for (Category c :
       {Category::param, Category::grad, Category::master, Category::momentum, Category::variance})
    sum += bytes[c];
  return sum;
}

Footprint footprint(const Program& program, const std::vector<bool>& only) {
  Footprint f;
  walk(program, only, [&](int s, int e, const Live& live) {
    for (const Tier t : all_values<Tier>) {
      TierFootprint& tier = f.tiers[t];
      if (live.total(t) > tier.peak_bytes) {
        tier.peak_bytes = live.total(t);
        tier.at_peak = live.by_category(t);
        tier.segment = s, tier.event = e;
      }
      tier.pinned_peak_bytes = std::max(tier.pinned_peak_bytes, live.pinned(t));
      for (const Category c : all_values<Category>)
        tier.category_peaks[c] = std::max(tier.category_peaks[c], live.by_category(t)[c]);
    }
    return true;
  });
  return f;
}

std::vector<EnumArray<Tier, CategoryBytes>> live_after(const Program& program, int segment) {
  const Segment& s = program.segments[static_cast<std::size_t>(segment)];
  Live live(program, s.entry);
  std::vector<EnumArray<Tier, CategoryBytes>> bytes;
  for (const Event& e : s.events) {
    live.apply(program, e);
    auto& now = bytes.emplace_back();
    for (const Tier t : all_values<Tier>) now[t] = live.by_category(t);
  }
  return bytes;
}

std::string describe_event(const Program& program, int segment, int event) {
  if (segment < 0) return "nothing";
  const Segment& s = program.segments[segment];
  if (event < 0) return s.name + ", entry";
  const Event& e = s.events[event];
  const std::string what =
      e.slot >= 0 ? printable(program.slots[e.slot].name) : std::string(to_string(e.kernel));
  return fmt::format("{}, event {}: {} {} ({})", s.name, event, to_string(e.op), what,
                     to_string(e.phase));
}

std::optional<BudgetOverrun> first_over(const Program& program, const Budgets& budgets) {
  std::optional<BudgetOverrun> over;
  walk(program, {}, [&](int segment, int event, const Live& live) {
    for (const Tier t : all_values<Tier>)
      if (!over && budgets[t] && live.total(t) > *budgets[t])
        over = BudgetOverrun{t, segment, event};
    return !over;
  });
  return over;
}

EnumArray<Tier, std::int64_t> allocated_bytes(const Program& program) {
  const bool pooled = program.memory_mode == MemoryMode::pooled;
  EnumArray<Tier, std::int64_t> bytes{};
  if (pooled) bytes = arena_layout(program).bytes;
  const Footprint f = footprint(program);
  for (const Tier t : all_values<Tier>)
    if (!pooled || t == Tier::nvme) bytes[t] = f.tiers[t].peak_bytes;
  return bytes;
}

}  // namespace shardmark
