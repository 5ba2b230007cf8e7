// SPDX-License-Identifier: Apache-2.0
// Whether a program fits in the memory of a machine, which every answer about time has to know.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/price/machine.hpp>

namespace shardmark {

/// The part of a device's memory that contexts, libraries and fragmentation leave for the run.
inline constexpr double usable_device_part = 0.94;

/// Where less than this part of a budget is left, a prediction is no promise that a run fits:
/// another version of a library or fragmentation may take as much.
inline constexpr double tight_part = 0.02;
/// Whether `bytes` fit in the budget, but tightly.
bool is_tight(std::int64_t bytes, const std::optional<std::int64_t>& budget);

/// The budgets of one rank in bytes: the deck's (`memory.*_gib`) where it gives them, else the
/// machine's, of which the ranks of a node share the host's memory and the disk. A part of a
/// device stays free (usable_device_part). Empty: neither says.
Budgets budgets_of(const Deck& deck, const Machine& machine, int ranks_per_node);

/// What the rank that needs most has to allocate, beside the budgets.
struct MemoryFit {
  struct Need {
    std::int64_t bytes = 0;  // that one rank allocates
    // What its live peak exceeds the budget by, or else its arena; 0: it fits, or there is no
    // budget.
    std::int64_t missing = 0;
    std::string at;  // the event at which the budget is first exceeded; empty if it fits
  };
  EnumArray<Tier, Need> tiers;
  Budgets budgets;
  EnumArray<Tier, std::string> budget_source;  // "94 % of a device's 79.1 GiB"
  std::int64_t missing_together = 0;           // of one memory that is the device's and the host's
  std::string refusal;  // one sentence or more, as `run` refuses; empty: it fits

  bool fits() const { return refusal.empty(); }
  /// The tiers that are used and whose budget nobody gives: "the device's memory", …
  std::string unknown() const;
  /// "61.55 GiB of device memory missing at micro_first, event 57: …"; empty: it fits.
  std::string shortfall() const;
  /// Of the tier that lacks most; 0: it fits.
  std::int64_t most_missing() const;
  /// "it needs 125.5 GiB of device memory per rank and there are 74.45 GiB: 51.06 GiB are missing",
  /// for the tier that lacks most; empty: it fits.
  std::string lack() const;
  /// "it fits tightly: 0.31 GiB (0.4 %) of the budget of device memory are left"; empty: there is
  /// room, or it does not fit.
  std::string tightness() const;
};

/// Compares `own`, the program of a rank, and the programs of the ranks of `deck` that need most
/// (heaviest_ranks) with the budgets. If the machine's device is a processor, device and host are
/// one memory. Throws what build_program throws.
MemoryFit memory_fit(const Deck& deck, const Program& own, const Machine& machine,
                     int ranks_per_node);

/// Does the same for a rank of which only the bytes are known, and names no event.
MemoryFit memory_fit(const Deck& deck, const EnumArray<Tier, std::int64_t>& bytes,
                     const Machine& machine, int ranks_per_node);

/// {tier: {"bytes", "budget", "missing", "tight", "at"}}, tiers that are used alone.
nlohmann::ordered_json memory_json(const MemoryFit& fit);

}  // namespace shardmark
