// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

std::size_t index(Tier t) {
  return static_cast<std::size_t>(t);
}
std::size_t index(Category c) {
  return static_cast<std::size_t>(c);
}

// The live bytes during a walk over events.
class Live {
 public:
  Live(const Program& program, const EndState& entry) : bytes_(live_at(program, entry)) {
    for (std::size_t t = 0; t < tier_count; ++t)
      total_[t] = std::accumulate(bytes_[t].begin(), bytes_[t].end(), std::int64_t{0});
    for (std::int32_t s : entry.alive)
      if (program.slots[s].pinned) pinned_[index(program.slots[s].tier)] += bytes_of(program, s);
  }
  // Returns whether the event changes any figure.
  bool apply(const Program& program, const Event& e) {
    if (e.op != Op::acquire && e.op != Op::release) return false;
    const std::int64_t bytes = bytes_of(program, e.slot) * (e.op == Op::acquire ? 1 : -1);
    bytes_[index(e.tier)][index(e.category)] += bytes;
    total_[index(e.tier)] += bytes;
    if (program.slots[e.slot].pinned) pinned_[index(e.tier)] += bytes;
    return true;
  }
  std::int64_t total(std::size_t tier) const { return total_[tier]; }
  std::int64_t pinned(std::size_t tier) const { return pinned_[tier]; }
  const CategoryBytes& by_category(std::size_t tier) const { return bytes_[tier]; }

 private:
  static std::int64_t bytes_of(const Program& program, std::int32_t slot) {
    return alloc_bytes(program.slots[slot]);
  }
  std::array<CategoryBytes, tier_count> bytes_{};
  std::array<std::int64_t, tier_count> total_{}, pinned_{};
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

std::array<CategoryBytes, tier_count> live_at(const Program& program, const EndState& end) {
  std::array<CategoryBytes, tier_count> bytes{};
  for (std::int32_t s : end.alive) {
    const Slot& slot = program.slots[s];
    bytes[index(slot.tier)][index(slot.category)] += alloc_bytes(slot);
  }
  return bytes;
}

std::int64_t state_bytes(const CategoryBytes& bytes) {
  std::int64_t sum = 0;
  for (Category c :
       {Category::param, Category::grad, Category::master, Category::momentum, Category::variance})
    sum += bytes[index(c)];
  return sum;
}

Footprint footprint(const Program& program, const std::vector<bool>& only) {
  Footprint f;
  walk(program, only, [&](int s, int e, const Live& live) {
    for (std::size_t t = 0; t < tier_count; ++t) {
      TierFootprint& tier = f.tiers[t];
      if (live.total(t) > tier.peak_bytes) {
        tier.peak_bytes = live.total(t);
        tier.at_peak = live.by_category(t);
        tier.segment = s, tier.event = e;
      }
      tier.pinned_peak_bytes = std::max(tier.pinned_peak_bytes, live.pinned(t));
      for (std::size_t c = 0; c < category_count; ++c)
        tier.category_peaks[c] = std::max(tier.category_peaks[c], live.by_category(t)[c]);
    }
    return true;
  });
  return f;
}

std::vector<std::array<CategoryBytes, tier_count>> live_after(const Program& program, int segment) {
  const Segment& s = program.segments[static_cast<std::size_t>(segment)];
  Live live(program, s.entry);
  std::vector<std::array<CategoryBytes, tier_count>> bytes;
  for (const Event& e : s.events) {
    live.apply(program, e);
    auto& now = bytes.emplace_back();
    for (std::size_t t = 0; t < tier_count; ++t) now[t] = live.by_category(t);
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
    for (std::size_t t = 0; t < tier_count && !over; ++t)
      if (budgets[t] && live.total(t) > *budgets[t])
        over = BudgetOverrun{static_cast<Tier>(t), segment, event};
    return !over;
  });
  return over;
}

std::array<std::int64_t, tier_count> allocated_bytes(const Program& program) {
  const bool pooled = program.memory_mode == MemoryMode::pooled;
  std::array<std::int64_t, tier_count> bytes{};
  if (pooled) bytes = arena_layout(program).bytes;
  const Footprint f = footprint(program);
  for (std::size_t t = 0; t < tier_count; ++t)
    if (!pooled || t == index(Tier::nvme)) bytes[t] = f.tiers[t].peak_bytes;
  return bytes;
}

}  // namespace shardmark
