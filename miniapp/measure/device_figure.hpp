// SPDX-License-Identifier: Apache-2.0
// The third figure on a GPU: what the driver counts of the device's memory, and whose that is. The
// driver keeps no high-water mark, so it is looked at three times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <core/memory/device_memory.hpp>

namespace shardmark {

/// What was seen. Empty where the device's memory is the host's.
struct DeviceLooks {
  std::optional<DeviceUse> start;  // before lanes are made: contexts are there
  std::optional<DeviceUse> ready;  // lanes, products and self-check have been
  std::optional<DeviceUse> end;    // after the last step
  std::int64_t ledger_bytes = 0;   // live in the ledger, the device's tier, after the last step
};

/// The device of this rank, all processes on it.
struct DeviceFigure {
  std::int64_t context_bytes = 0;    // at the start: contexts, Kokkos', other programs
  std::int64_t libraries_bytes = 0;  // came with lanes and products: NCCL's, cuBLASLt's
  std::int64_t in_use_bytes = 0;     // at the end
  std::int64_t excess_bytes = 0;     // of that, beyond both and the ledger
  int ranks = 1;                     // on the device; where more than one, others' is in the excess

  bool judged() const { return ranks == 1; }
};

std::optional<DeviceFigure> device_figure(const DeviceLooks& looks);
std::string describe(const DeviceFigure& figure, std::int64_t allowance_bytes);

}  // namespace shardmark
