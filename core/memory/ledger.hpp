// SPDX-License-Identifier: Apache-2.0
// The memory that was really allocated, in bytes: the measurement that `footprint` predicts. The
// ledger listens to Kokkos' allocation callbacks, so the code that allocates reports nothing. Only
// allocations with one of our labels are counted; Kokkos' own scratch and foreign Views are not.
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

/// The counts of one tier; the fields correspond to those of TierFootprint.
struct TierLedger {
  std::int64_t live_bytes = 0, peak_bytes = 0;
  CategoryBytes live{};            // sums to live_bytes, except that an arena has no category
  CategoryBytes at_peak{};         // what was live when peak_bytes was first reached
  CategoryBytes category_peaks{};  // the peak of each category, whenever it was reached
  std::int64_t allocations = 0;    // since the ledger began to listen
  std::string peak_at;             // the last `set_at` before the peak was first reached

  /// Counts an allocation and its release; an arena has no category. `at` becomes `peak_at` when
  /// the allocation makes a new peak.
  void add(std::optional<Category> category, std::int64_t bytes, std::string_view at);
  void remove(std::optional<Category> category, std::int64_t bytes);
};

/// The state of a ledger at one moment.
struct LedgerSnapshot {
  EnumArray<Tier, TierLedger> tiers;
  const TierLedger& operator[](Tier t) const { return tiers[t]; }
};

/// Listens from construction to destruction, between Kokkos' initialize and finalize. At most one
/// ledger may exist. Callbacks that another tool set before are called too and are restored at the
/// end. All members are thread-safe, and none is collective.
class Ledger {
 public:
  /// Throws MemoryError when another ledger already listens.
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Sets the place in the program ("micro_only, event 12") that `peak_at` reports. Cheap: the text
  /// is copied into storage that is reused.
  void set_at(std::string_view where);
  /// Restarts all peaks from what is live now.
  void reset_peaks();
  LedgerSnapshot snapshot() const;
  /// The live bytes of each tier. Cheaper than a snapshot, so it can be called after every event.
  EnumArray<Tier, std::int64_t> live_bytes() const;

 private:
  friend struct LedgerCallbacks;
  struct Allocation {
    Tier tier;
    std::optional<Category> category;  // empty for an arena
    std::int64_t bytes;
  };
  // The caller holds the listener's mutex.
  void allocated(const char* label, const void* address, std::int64_t bytes);
  void freed(const void* address);

  LedgerSnapshot now_;
  std::unordered_map<const void*, Allocation> alive_;
  std::string at_;
};

}  // namespace shardmark
