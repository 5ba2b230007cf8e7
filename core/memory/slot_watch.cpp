// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/cache_line.hpp>
#include <core/memory/slot_watch.hpp>

namespace shardmark {
namespace {

// In every floating-point type an element of such bytes is a NaN that no arithmetic makes, and it
// is neither a token nor a flag. So nobody writes it by chance, and whoever reads it shows it.
constexpr std::byte mark{0xFF};
constexpr std::byte guard{0xA5};

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == value; });
}

// The bytes at the end of a slot of which one must change. What a module keeps from forward to
// backward is several arrays, each rounded up to whole cache lines. A quantized element may be -1,
// but not as many as this in a row.
std::size_t tail_bytes(const Slot& slot) {
  constexpr std::int64_t quantized = 16;
  std::int64_t bytes = dtype_bytes(slot.dtype);
  if (slot.category == Category::activation)
    bytes = std::max<std::int64_t>(bytes, cache_line_bytes);
  else if (slot.dtype == Dtype::int8)
    bytes = quantized;
  return static_cast<std::size_t>(std::min(alloc_bytes(slot), bytes));
}

bool is_scratch(Category category) {
  return category == Category::workspace || category == Category::staging;
}

}  // namespace

SlotWatch::SlotWatch(const Program& program)
    : program_(program), memory_(program.slots.size()), written_(program.slots.size()) {}

void SlotWatch::acquired(int slot, std::span<std::byte> memory) {
  const Slot& s = program_.slots[slot];
  if (s.elems == 0) return;
  const auto next = by_address_.upper_bound(memory.data());
  const auto shares = [&](int other) {
    report(slot, fmt::format("shares memory with {}", program_.slots[other].name));
  };
  if (next != by_address_.end() && next->first < memory.data() + memory.size())
    shares(next->second);
  if (next != by_address_.begin()) {
    const int before = std::prev(next)->second;
    if (memory_[before].data() + memory_[before].size() > memory.data()) shares(before);
  }
  by_address_[memory.data()] = slot;
  memory_[slot] = memory;
  written_[slot] = 0;
  const auto bytes = static_cast<std::size_t>(alloc_bytes(s));
  const std::size_t tail = tail_bytes(s);
  std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(bytes - tail), tail, mark);
  std::fill(memory.begin() + static_cast<std::ptrdiff_t>(bytes), memory.end(), guard);
}

// Whether this rank receives what a collective delivers.
bool SlotWatch::receives(const Event& event) const {
  if (event.op != Op::reduce) return true;
  const std::vector<int>& ranks = program_.groups[event.group].ranks;
  return (ranks.empty() ? event.root : ranks[event.root]) == program_.rank;
}

void SlotWatch::writes(const Event& event) {
  const int useful = is_collective(event.op) ? 2 : event.operands.count;  // then: scratch
  if (!receives(event)) return;
  for (int i = 0; i < std::min(useful, event.operands.count); ++i) {
    const Operand& o = program_.operands[event.operands.first + i];
    if (o.writes && !is_scratch(program_.slots[o.slot].category))
      written_[o.slot] = std::max(written_[o.slot], o.offset + o.elems);
  }
}

void SlotWatch::look_at(int slot) {
  const Slot& s = program_.slots[slot];
  const auto bytes = static_cast<std::size_t>(alloc_bytes(s));
  const std::size_t tail = tail_bytes(s);
  const std::span<const std::byte> memory = memory_[slot];
  if (!all_are(memory.subspan(bytes), guard)) return report(slot, "was written beyond its end");
  if (written_[slot] < s.elems || s.partly) return;
  if (all_are(memory.subspan(bytes - tail, tail), mark))
    return report(slot, "was not written up to its end, although the plan writes it completely");
  ++use_.to_the_end;
}

void SlotWatch::released(int slot) {
  if (memory_[slot].empty()) return;
  look_at(slot);
  const auto at = by_address_.find(memory_[slot].data());
  if (at != by_address_.end() && at->second == slot) by_address_.erase(at);
  memory_[slot] = {};
}

SlotUse SlotWatch::finish() {
  for (int slot = 0; slot < static_cast<int>(memory_.size()); ++slot) released(slot);
  return use_;
}

void SlotWatch::report(int slot, const std::string& what) {
  const Slot& s = program_.slots[slot];
  if (use_.wrong.empty())
    use_.wrong = fmt::format("the memory of {} ({} {}, {} bytes) {}", s.name, to_string(s.tier),
                             to_string(s.category), alloc_bytes(s), what);
}

}  // namespace shardmark
