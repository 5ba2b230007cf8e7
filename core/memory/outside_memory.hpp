// SPDX-License-Identifier: Apache-2.0
// Memory that this process holds and that its own resident figure does not contain: memory of the
// processes that it started, and of memory files that it keeps open without mapping them.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// Bytes, at one moment.
struct OutsideMemory {
  std::int64_t children_bytes = 0;  // proportional set size of all descendants
  std::int64_t memfd_bytes = 0;     // allocated blocks of memory files that are open, not mapped
  std::int64_t total() const { return children_bytes + memfd_bytes; }
};

/// Reads what the calling process holds now. Not collective. What /proc does not show counts as 0.
OutsideMemory outside_memory(const std::string& proc = "/proc");

/// Describes the memory as "800.0 MiB in processes that it started, 1.0 MiB in memory files".
/// Returns an empty text if there is no such memory.
std::string describe(const OutsideMemory& memory);

}  // namespace shardmark
