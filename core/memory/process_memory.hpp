// SPDX-License-Identifier: Apache-2.0
// The memory that the operating system attributes to this process. It includes what neither plan
// nor ledger sees: memory of MPI, oneDNN's packed weights, the code itself.
// Memory that this process holds and that its own resident figure does not contain: memory of the
// processes that it started, and of memory files that it keeps open without mapping them.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// The resident memory of a process, now and at most.
struct ProcessMemory {
  std::int64_t resident_bytes = 0;       // now (VmRSS)
  std::int64_t peak_resident_bytes = 0;  // high-water mark (VmHWM)
  std::int64_t file_bytes = 0;           // now, pages of files: program, libraries (RssFile)
};

/// Reads the memory of the calling process. Not collective. Throws MemoryError when the file cannot
/// be read or lacks these lines.
ProcessMemory process_memory(const std::string& status_file = "/proc/self/status");

/// Sets the high-water mark to what is resident now. Returns false when the system does not allow
/// this; the mark then covers the whole life of the process. Not collective.
[[nodiscard]] bool reset_peak_resident(const std::string& file = "/proc/self/clear_refs");

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
