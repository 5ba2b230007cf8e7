// SPDX-License-Identifier: Apache-2.0
// The clock of the decorators: monotonic, in ns.
#pragma once

#include <chrono>
#include <cstdint>

namespace shardmark {

/// Nanoseconds of a clock that never goes back. Its zero is arbitrary, so only differences mean
/// something.
inline std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace shardmark
