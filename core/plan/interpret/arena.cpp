// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deck/checked.hpp>
#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/occupied_memory.hpp>

namespace shardmark {
namespace {

struct Lifetimes {
  std::vector<Lifetime> of_slot;
  std::int64_t moments = 0;
};

// When slots are alive, on a clock that runs through all segments. Only the order of acquires and
// releases matters, so no other event moves it.
Lifetimes lifetimes(const Program& p) {
  Lifetimes lives{std::vector<Lifetime>(p.slots.size()), 0};
  std::int64_t& now = lives.moments;
  const auto begin = [&](std::int32_t slot) {
    Lifetime& life = lives.of_slot[slot];
    if (life.empty() || life.back().end != now) life.push_back({now, now});
  };
  const auto end = [&](std::int32_t slot) { lives.of_slot[slot].back().end = now; };
  for (const Segment& s : p.segments) {
    for (std::int32_t slot : s.entry.alive) begin(slot);
    for (const Event& e : s.events) {
      if (e.op != Op::acquire && e.op != Op::release) continue;
      ++now;
      e.op == Op::acquire ? begin(e.slot) : end(e.slot);
    }
    ++now;
    for (std::int32_t slot : s.exit.alive) end(slot);
  }
  return lives;
}

// Slots that are alive throughout every step. Nothing else shares their memory.
std::vector<bool> always_alive(const Program& p) {
  std::vector<int> ends(p.slots.size());
  int most = 0;
  for (const Segment& s : p.segments) {
    if (s.kind == SegmentKind::init) continue;
    most += 2;
    for (const EndState* end : {&s.entry, &s.exit})
      for (std::int32_t slot : end->alive) ++ends[slot];
  }
  std::vector<bool> always(ends.size());
  for (std::size_t slot = 0; slot < ends.size(); ++slot)
    always[slot] = most > 0 && ends[slot] == most;
  return always;
}

class Placer {
 public:
  explicit Placer(const Program& program)
      : p_(program),
        lives_(lifetimes(program)),
        taken_(enum_size<Tier>, OccupiedMemory(lives_.moments)) {
    layout_.offset.assign(p_.slots.size(), -1);
    for (std::int64_t& alignment : layout_.alignment) alignment = arena_alignment;
    if (p_.has_files()) layout_.alignment[Tier::host] = file_alignment;
    for (const Slot& s : p_.slots)
      padded_.push_back(round_up(alloc_bytes(s), layout_.alignment[s.tier], "arena: padding"));
  }

  void place() {
    const std::vector<bool> always = always_alive(p_);
    std::vector<int> others;
    for (int slot = 0; slot < static_cast<int>(p_.slots.size()); ++slot) {
      if (lives_.of_slot[slot].empty() || p_.slots[slot].tier == Tier::nvme) continue;  // a file
      if (always[slot])
        put(slot, layout_.bytes[tier(slot)]);
      else
        others.push_back(slot);
    }
    const auto bottom = layout_.bytes;  // above what is always alive
    std::ranges::stable_sort(others, [&](int a, int b) { return padded_[a] > padded_[b]; });
    for (int slot : others) {
      OccupiedMemory& taken = taken_[tier(slot)];
      const Lifetime& life = lives_.of_slot[slot];
      put(slot, taken.lowest_free(life, bottom[tier(slot)], padded_[slot]));
      taken.take(life, layout_.offset[slot], layout_.offset[slot] + padded_[slot]);
    }
    // An allocation need not begin at a page.
    std::int64_t& host = layout_.bytes[Tier::host];
    if (p_.has_files() && host > 0) host = checked_add(host, file_alignment, "arena");
  }

  ArenaLayout layout() && {
    for (const OccupiedMemory& taken : taken_) layout_.work += taken.work();
    return std::move(layout_);
  }

 private:
  std::size_t tier(int slot) const { return static_cast<std::size_t>(p_.slots[slot].tier); }

  void put(int slot, std::int64_t at) {
    layout_.offset[slot] = at;
    std::int64_t& bytes = layout_.bytes[tier(slot)];
    bytes = std::max(bytes, checked_add(at, padded_[slot], "arena"));
  }

  const Program& p_;
  const Lifetimes lives_;
  ArenaLayout layout_;
  std::vector<std::int64_t> padded_;   // by slot: bytes
  std::vector<OccupiedMemory> taken_;  // by tier: of slots that are not always alive
};

}  // namespace

ArenaLayout arena_layout(const Program& program) {
  Placer placer(program);
  placer.place();
  return std::move(placer).layout();
}

}  // namespace shardmark
