// SPDX-License-Identifier: Apache-2.0
// What memory was really allocated, to the byte: the measured side of what `footprint` predicts.
// The ledger listens to Kokkos' allocation callbacks and is never told anything by those who
// allocate; it counts what carries a label of ours, so neither Kokkos' own scratch nor a foreign
// View is in it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <core/plan/deck/types.hpp>
#include <core/plan/interpret/footprint.hpp>

namespace shardmark {

/// One tier as the ledger saw it; the fields mirror TierFootprint.
struct TierLedger {
  std::int64_t live_bytes = 0, peak_bytes = 0;
  CategoryBytes live{};     // sums to live_bytes, an arena aside
  CategoryBytes at_peak{};  // sums to peak_bytes, an arena aside: what was live when the peak was
                            // first reached
  CategoryBytes category_peaks{};  // each category's own peak, whenever it was
  std::int64_t allocations = 0;    // since the ledger began to listen
  std::string peak_at;             // the last `set_at` before the peak was first reached

  /// An allocation of a category, or of an arena, and its end.
  void add(std::optional<Category> category, std::int64_t bytes, std::string_view at);
  void remove(std::optional<Category> category, std::int64_t bytes);
};

struct LedgerSnapshot {
  std::array<TierLedger, tier_count> tiers;
  const TierLedger& operator[](Tier t) const { return tiers[static_cast<std::size_t>(t)]; }
};

/// Listens from construction to destruction. One at a time, between Kokkos' initialize and
/// finalize. Callbacks that a tool had set before are called as well, and put back at the end. All
/// members may be called from any thread; all are local.
class Ledger {
 public:
  /// Throws MemoryError when another ledger is listening.
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Says where the program stands ("micro_only, event 12"), for `peak_at`. Cheap: a copy into
  /// storage that is kept.
  void set_at(std::string_view where);
  /// Peaks start again from what is live now.
  void reset_peaks();
  LedgerSnapshot snapshot() const;
  /// By tier. Cheaper than a snapshot: for looking after every event.
  std::array<std::int64_t, tier_count> live_bytes() const;

 private:
  friend struct LedgerCallbacks;
  struct Allocation {
    Tier tier;
    std::optional<Category> category;  // empty: an arena
    std::int64_t bytes;
  };
  // Called with the listener's mutex held.
  void allocated(const char* label, const void* address, std::int64_t bytes);
  void freed(const void* address);

  LedgerSnapshot now_;
  std::unordered_map<const void*, Allocation> alive_;
  std::string at_;
};

}  // namespace shardmark
