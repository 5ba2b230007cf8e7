// SPDX-License-Identifier: Apache-2.0

#include <core/memory/buffer.hpp>
#include <core/memory/label.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/system_pages.hpp>
#include <miniapp/execute/slot_memory.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace shardmark {

namespace {
// An empty slot is alive too, so it needs an address; nothing reads it.
std::byte nothing;

std::byte* first_multiple(std::byte* from, std::int64_t alignment) {
  const auto place = reinterpret_cast<std::uintptr_t>(from);
  const auto step = static_cast<std::uintptr_t>(alignment);
  return from + (step - place % step) % step;
}
}  // namespace

SlotMemory::SlotMemory(const Program& program, Ledger* ledger, DiskOptions disk)
    : program_(program),
      ledger_(ledger),
      data_(program.slots.size(), nullptr),
      disk_(std::move(disk)) {
  files_.resize(program.slots.size());
  if (program.memory_mode == MemoryMode::strict) {
    buffers_.resize(program.slots.size());
    return;
  }
  layout_ = arena_layout(program);
  for (Tier tier : memory_tiers) {
    if (layout_[tier] == 0) continue;
    const std::string label = arena_label(tier);
    if (ledger_ != nullptr) ledger_->set_at(label);
    auto& arena = arenas_[tier];
    arena.emplace(tier, layout_[tier], label);
    prefer_huge_pages(tier, arena->data<std::byte>(), arena->bytes());
    // An arena is no larger than its places, unless they need more than a buffer's alignment.
    first_place_[tier] = layout_.alignment[tier] == file_alignment
                             ? first_multiple(arena->data<std::byte>(), file_alignment)
                             : arena->data<std::byte>();
  }
}

void SlotMemory::acquire(int slot) {
  const Slot& s = program_.slots[slot];
  held_[s.tier] += alloc_bytes(s);
  if (is_file(slot)) return make_file(slot);
  if (program_.memory_mode == MemoryMode::pooled) {
    data_[slot] = arenas_[s.tier] ? first_place_[s.tier] + layout_.offset[slot] : &nothing;
    return;
  }
  if (ledger_ != nullptr) ledger_->set_at(s.name);
  buffers_[slot].emplace(s);
  data_[slot] = buffers_[slot]->bytes() > 0 ? buffers_[slot]->data<std::byte>() : &nothing;
}

void SlotMemory::release(int slot) {
  const Slot& s = program_.slots[slot];
  held_[s.tier] -= alloc_bytes(s);
  data_[slot] = nullptr;
  if (is_file(slot)) return drop_file(slot);
  if (!buffers_.empty()) buffers_[slot].reset();
}

std::span<std::byte> SlotMemory::room(int slot) const {
  const std::int64_t bytes = alloc_bytes(program_.slots[slot]);
  const bool pooled = program_.memory_mode == MemoryMode::pooled;
  return {data_[slot], static_cast<std::size_t>(
                           pooled ? round_up(bytes, arena_alignment, "room of a slot") : bytes)};
}

void SlotMemory::make_file(int slot) {
  const auto i = static_cast<std::size_t>(slot);
  const Slot& s = program_.slots[slot];
  files_[i].emplace(s.category == Category::param ? disk_.param_folder : disk_.folder,
                    alloc_bytes(s));
  data_[slot] = &nothing;
  file_sizes_.add(s.category, files_[i]->bytes(), s.name);
}

void SlotMemory::drop_file(int slot) {
  auto& file = files_[slot];
  file_sizes_.remove(program_.slots[slot].category, file->bytes());
  file.reset();
}

void SlotMemory::unmap_files() const {
  for (const auto& file : files_)
    if (file) file->unmap();
}

void SlotMemory::leak(int slot) {
  if (buffers_.empty()) {
    if (ledger_ != nullptr) ledger_->set_at(program_.slots[slot].name);
    leaked_.emplace_back(program_.slots[slot]);
  } else {
    leaked_.push_back(std::move(*buffers_[slot]));
  }
  release(slot);
  const Slot& s = program_.slots[slot];
  held_[s.tier] += alloc_bytes(s);
}

EnumArray<Tier, std::int64_t> SlotMemory::held_bytes() const {
  const bool strict = program_.memory_mode == MemoryMode::strict;
  auto held = strict && ledger_ != nullptr ? ledger_->live_bytes() : held_;
  held[Tier::nvme] = file_sizes_.live_bytes;
  return held;
}

void prefer_huge_pages(Tier tier, std::byte* data, std::int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (!device_is_host) return;  // device memory, or pinned memory
  static_cast<void>(tier);
  static const auto page = static_cast<std::uintptr_t>(huge_page_bytes());
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + static_cast<std::uintptr_t>(bytes)) / page * page;
  if (first < last) static_cast<void>(madvise(data + (first - begin), last - first, MADV_HUGEPAGE));
#else
  static_cast<void>(tier), static_cast<void>(data), static_cast<void>(bytes);
#endif
}

}  // namespace shardmark
