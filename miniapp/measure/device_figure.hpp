// SPDX-License-Identifier: Apache-2.0
// The third memory figure on a GPU: how much device memory the driver counts as used, and by whom.
// The driver keeps no high-water mark, so it is asked three times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <core/memory/device_memory.hpp>

namespace shardmark {

/// What the driver counted. Empty if the device's memory is the host's.
struct DeviceLooks {
  std::optional<DeviceUse> start;  // before communicators are made; contexts exist
  std::optional<DeviceUse> ready;  // after communicators, products and self-check
  std::optional<DeviceUse> end;    // after the last step
};

/// The device of this rank, with all processes that use it.
struct DeviceFigure {
  std::int64_t context_bytes = 0;    // at the start: contexts, Kokkos, other programs
  std::int64_t libraries_bytes = 0;  // added by communicators and products: NCCL, cuBLASLt
  std::int64_t in_use_bytes = 0;     // at the end
  std::int64_t excess_bytes = 0;     // of that, neither of these nor in the ledger
  int ranks = 1;  // that use the device; with several, the excess contains theirs

  bool judged() const { return ranks == 1; }
};

/// Computes the figure from the three looks of this rank and the live bytes of the device's tier
/// after the last step; empty if the driver was not asked each time.
std::optional<DeviceFigure> device_figure(const DeviceLooks& looks, std::int64_t ledger_bytes);
/// One sentence for the report that says whether the excess is within the allowance.
std::string describe(const DeviceFigure& figure, std::int64_t allowance_bytes);

}  // namespace shardmark
