// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <core/plan/deck/checked.hpp>
#include <core/plan/interpret/arena.hpp>

namespace shardmark {
namespace {

// When a slot is alive, on a clock that runs through all events of all segments: half-open spans in
// ascending order.
struct Span {
  std::int64_t begin, end;
};
using Lifetime = std::vector<Span>;

bool overlap(const Lifetime& a, const Lifetime& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].begin < b[j].end && b[j].begin < a[i].end) return true;
    a[i].end < b[j].end ? ++i : ++j;
  }
  return false;
}

std::vector<Lifetime> lifetimes(const Program& p) {
  std::vector<Lifetime> lives(p.slots.size());
  std::int64_t now = 0;
  const auto begin = [&](std::int32_t slot) { lives[slot].push_back({now, now}); };
  for (const Segment& s : p.segments) {
    for (std::int32_t slot : s.entry.alive) begin(slot);
    for (const Event& e : s.events) {
      ++now;
      if (e.op == Op::acquire) begin(e.slot);
      if (e.op == Op::release) lives[e.slot].back().end = now;
    }
    ++now;
    for (std::int32_t slot : s.exit.alive) lives[slot].back().end = now;
  }
  return lives;
}

// Alive from one end of every step to the other: apart from everything else.
std::vector<bool> always_alive(const Program& p) {
  std::vector<int> ends(p.slots.size());
  int most = 0;
  for (const Segment& s : p.segments) {
    if (s.kind == SegmentKind::init) continue;
    most += 2;
    for (const EndState* end : {&s.entry, &s.exit})
      for (std::int32_t slot : end->alive) ++ends[slot];
  }
  std::vector<bool> always;
  for (int n : ends) always.push_back(most > 0 && n == most);
  return always;
}

class Placer {
 public:
  explicit Placer(const Program& program) : p_(program), lives_(lifetimes(program)) {
    layout_.offset.assign(p_.slots.size(), -1);
  }

  void place() {
    const std::vector<bool> always = always_alive(p_);
    std::vector<int> others;
    for (int slot = 0; slot < static_cast<int>(p_.slots.size()); ++slot) {
      if (lives_[slot].empty() || p_.slots[slot].tier == Tier::nvme) continue;  // a file
      if (always[slot])
        put(slot, layout_.bytes[tier(slot)]);
      else
        others.push_back(slot);
    }
    bottom_ = layout_.bytes;
    std::stable_sort(others.begin(), others.end(),
                     [&](int a, int b) { return padded(a) > padded(b); });
    for (int slot : others) {
      put(slot, lowest_free(slot));
      placed_[tier(slot)].push_back(slot);
    }
  }

  ArenaLayout layout() && { return std::move(layout_); }

 private:
  std::size_t tier(int slot) const { return static_cast<std::size_t>(p_.slots[slot].tier); }
  std::int64_t padded(int slot) const {
    return round_up(alloc_bytes(p_.slots[slot]), arena_alignment, "arena: padding");
  }

  std::int64_t lowest_free(int slot) const {
    std::vector<Span> taken;  // places of what lives at the same time
    for (int other : placed_[tier(slot)])
      if (overlap(lives_[slot], lives_[other]))
        taken.push_back({layout_.offset[other], layout_.offset[other] + padded(other)});
    std::sort(taken.begin(), taken.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::int64_t at = bottom_[tier(slot)];
    for (const Span& t : taken) {
      if (t.begin - at >= padded(slot)) break;
      at = std::max(at, t.end);
    }
    return at;
  }

  void put(int slot, std::int64_t at) {
    layout_.offset[slot] = at;
    std::int64_t& bytes = layout_.bytes[tier(slot)];
    bytes = std::max(bytes, checked_add(at, padded(slot), "arena"));
  }

  const Program& p_;
  const std::vector<Lifetime> lives_;
  ArenaLayout layout_;
  std::array<std::int64_t, tier_count> bottom_{};    // above what is always alive
  std::array<std::vector<int>, tier_count> placed_;  // of the others
};

}  // namespace

ArenaLayout arena_layout(const Program& program) {
  Placer placer(program);
  placer.place();
  return std::move(placer).layout();
}

}  // namespace shardmark
