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
  std::string refusal;  // one sentence or more, as `run` refuses; empty: it fits

  bool fits() const { return refusal.empty(); }
  /// The tiers that are used and whose budget nobody gives: "the device's memory", …
  std::string unknown() const;
  /// "61.55 GiB of device memory missing at micro_first, event 57: …"; empty: it fits.
  std::string shortfall() const;
};

/// Compares `own`, the program of a rank, and the programs of the ranks of `deck` that need most
/// (heaviest_ranks) with the budgets. If the machine's device is a processor, device and host are
/// one memory. Throws what build_program throws.
MemoryFit memory_fit(const Deck& deck, const Program& own, const Machine& machine,
                     int ranks_per_node);

/// {tier: {"bytes", "budget", "missing", "at"}}, tiers that are used alone.
nlohmann::ordered_json memory_json(const MemoryFit& fit);

}  // namespace shardmark
