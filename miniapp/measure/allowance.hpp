// SPDX-License-Identifier: Apache-2.0
// How much memory beyond the ledger's peak a run may have, which the run and `verify` ask.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <core/plan/deck/deck.hpp>
#include <core/text.hpp>

namespace shardmark {

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
