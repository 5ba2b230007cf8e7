// SPDX-License-Identifier: Apache-2.0
// The third figure: what the system says that this process holds. It sees what neither plan nor
// ledger can: the memory of MPI, of oneDNN's packing, of the code itself.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

struct ProcessMemory {
  std::int64_t resident_bytes = 0;       // now (VmRSS)
  std::int64_t peak_resident_bytes = 0;  // high-water mark (VmHWM)
};

/// Local. Throws MemoryError when the file is unreadable or has no such lines.
ProcessMemory process_memory(const std::string& status_file = "/proc/self/status");

/// Local. Sets the high-water mark back to what is resident now. False where the system does not
/// allow it: the mark is then that of the whole life of the process.
[[nodiscard]] bool reset_peak_resident(const std::string& file = "/proc/self/clear_refs");

}  // namespace shardmark
