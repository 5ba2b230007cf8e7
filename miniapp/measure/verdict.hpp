// SPDX-License-Identifier: Apache-2.0
// VALID or INVALID: all checks are here; docs/valid.md explains them. Whether a run is official is
// decided in miniapp/rules/run_class.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/text.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// What the driver observed that is not in the figures of a Result.
struct Observed {
  std::string
      memory_mismatch;  // of the lowest rank whose ledger differs from its plan; empty: none
  std::string values_mismatch;  // what the proof of the collectives found first
  std::string calls_mismatch, copies_mismatch, disk_mismatch;
  std::string excess;              // of the lowest rank whose system figure exceeds the allowance
  std::string inputs;              // of the lowest rank with other data or another program
  std::string clocks;              // of the lowest rank whose clocks disagree
  std::string self_check;          // what was wrong; empty: passed
  std::string injected;            // "SHARDMARK_FAULT=leak"
  std::optional<Check> reference;  // by the reference answers; empty: there are none for the deck
};

/// Fills `result.checks`.
void judge(const Deck& deck, const Program& program, const Observed& observed, Result& result);

/// Bytes by which what the system counts for a rank may exceed the ledger's peak, `ledger_peak` of
/// host and device together: `memory.allowance_mib`, or half of the peak within bounds, since a
/// multiple of what the run itself allocates would hide anything. With background traffic, which
/// the MPI library buffers as it likes, and with a device (`on_device`), whose driver keeps memory
/// of its own, it is the upper bound.
inline std::int64_t allowance_bytes(const Deck& deck, std::int64_t ledger_peak, bool on_device) {
  constexpr std::int64_t least = std::int64_t{64} << 20, most = std::int64_t{512} << 20;
  if (deck.memory.allowance_mib)
    return static_cast<std::int64_t>(std::llround(*deck.memory.allowance_mib * mib_bytes));
  return deck.congestion.given || on_device ? most : std::clamp(ledger_peak / 2, least, most);
}

}  // namespace shardmark
