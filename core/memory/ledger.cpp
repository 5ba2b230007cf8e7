// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include <Kokkos_Core.hpp>

#include <core/error.hpp>
#include <core/memory/label.hpp>
#include <core/memory/ledger.hpp>

namespace shardmark {
namespace {
using OnAllocate = Kokkos::Tools::allocateDataFunction;
using OnFree = Kokkos::Tools::deallocateDataFunction;

// The callbacks are C function pointers without user data, so their state has to be static. This
// struct is all of that state.
struct Listener {
  std::mutex mutex;  // guards this struct and the ledger in it
  Ledger* ledger = nullptr;
  bool in_chain = false;  // Kokkos, or a tool that registered later, calls our callbacks
  OnAllocate next_allocate = nullptr;
  OnFree next_free = nullptr;
};
Listener& listener() {
  static Listener instance;
  return instance;
}
}  // namespace

struct LedgerCallbacks {
  static void on_allocate(Kokkos::Tools::SpaceHandle space, const char* label, const void* address,
                          std::uint64_t bytes) {
    OnAllocate next = nullptr;
    {
      Listener& l = listener();
      const std::lock_guard lock(l.mutex);
      if (l.ledger != nullptr)
        l.ledger->allocated(label, address, static_cast<std::int64_t>(bytes));
      next = l.next_allocate;
    }
    // Outside the lock: another tool may allocate in its callback.
    if (next != nullptr) next(space, label, address, bytes);
  }

  static void on_free(Kokkos::Tools::SpaceHandle space, const char* label, const void* address,
                      std::uint64_t bytes) {
    OnFree next = nullptr;
    {
      Listener& l = listener();
      const std::lock_guard lock(l.mutex);
      if (l.ledger != nullptr) l.ledger->freed(address);
      next = l.next_free;
    }
    if (next != nullptr) next(space, label, address, bytes);
  }
};

Ledger::Ledger() {
  Listener& l = listener();
  const std::lock_guard lock(l.mutex);
  if (l.ledger != nullptr)
    throw MemoryError("Ledger: another ledger is listening: only one may exist: destroy it first");
  // A tool that registered after an earlier ledger may still call our callbacks. Setting them a
  // second time would make the chain of callbacks a cycle.
  if (!l.in_chain) {
    const auto before = Kokkos::Tools::Experimental::get_callbacks();
    l.next_allocate = before.allocate_data;
    l.next_free = before.deallocate_data;
    Kokkos::Tools::Experimental::set_allocate_data_callback(LedgerCallbacks::on_allocate);
    Kokkos::Tools::Experimental::set_deallocate_data_callback(LedgerCallbacks::on_free);
    l.in_chain = true;
  }
  l.ledger = this;
}

Ledger::~Ledger() {
  Listener& l = listener();
  const std::lock_guard lock(l.mutex);
  l.ledger = nullptr;
  const auto now = Kokkos::Tools::Experimental::get_callbacks();
  // Our callbacks are removed only if Kokkos calls them directly; otherwise they stay in the chain
  // and pass calls on.
  if (now.allocate_data != LedgerCallbacks::on_allocate ||
      now.deallocate_data != LedgerCallbacks::on_free)
    return;
  Kokkos::Tools::Experimental::set_allocate_data_callback(l.next_allocate);
  Kokkos::Tools::Experimental::set_deallocate_data_callback(l.next_free);
  l.next_allocate = nullptr;
  l.next_free = nullptr;
  l.in_chain = false;
}

void TierLedger::add(std::optional<Category> category, std::int64_t bytes, std::string_view at) {
  ++allocations;
  live_bytes += bytes;
  if (category) {
    const Category c = *category;
    live[c] += bytes;
    category_peaks[c] = std::max(category_peaks[c], live[c]);
  }
  if (live_bytes <= peak_bytes) return;
  peak_bytes = live_bytes;
  at_peak = live;
  peak_at = at;
}

void TierLedger::remove(std::optional<Category> category, std::int64_t bytes) {
  live_bytes -= bytes;
  if (category) live[*category] -= bytes;
}

void Ledger::set_at(std::string_view where) {
  const std::lock_guard lock(listener().mutex);
  at_.assign(where);
}

void Ledger::reset_peaks() {
  const std::lock_guard lock(listener().mutex);
  for (TierLedger& tier : now_.tiers) {
    tier.peak_bytes = tier.live_bytes;
    tier.at_peak = tier.live;
    tier.category_peaks = tier.live;
    tier.peak_at = at_;
  }
}

LedgerSnapshot Ledger::snapshot() const {
  const std::lock_guard lock(listener().mutex);
  return now_;
}

EnumArray<Tier, std::int64_t> Ledger::live_bytes() const {
  const std::lock_guard lock(listener().mutex);
  EnumArray<Tier, std::int64_t> bytes{};
  for (const Tier t : all_values<Tier>) bytes[t] = now_.tiers[t].live_bytes;
  return bytes;
}

void Ledger::allocated(const char* label, const void* address, std::int64_t bytes) {
  const auto parsed = parse_memory_label(label);
  if (!parsed) return;
  // Remembered by address: Kokkos shortens long labels before it frees.
  alive_.insert_or_assign(address, Allocation{parsed->tier, parsed->category, bytes});
  now_.tiers[parsed->tier].add(parsed->category, bytes, at_);
}

void Ledger::freed(const void* address) {
  const auto it = alive_.find(address);
  if (it == alive_.end()) return;  // not ours, or from before the ledger listened
  const auto [tier_of, category, bytes] = it->second;
  alive_.erase(it);
  now_.tiers[tier_of].remove(category, bytes);
}

}  // namespace shardmark
