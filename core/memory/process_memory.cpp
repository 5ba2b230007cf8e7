// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/memory/process_memory.hpp>

namespace shardmark {

ProcessMemory process_memory(const std::string& status_file) {
  std::optional<std::int64_t> resident, peak;
  std::int64_t files = 0;
  std::ifstream file(status_file);
  for (std::string line; std::getline(file, line);) {  // "VmRSS:     1234 kB"
    std::istringstream words(line);
    std::string key, unit;
    std::int64_t kib = 0;
    if (!(words >> key >> kib >> unit) || unit != "kB") continue;
    if (key == "VmRSS:") resident = kib * 1024;
    if (key == "VmHWM:") peak = kib * 1024;
    if (key == "RssFile:") files = kib * 1024;
  }
  if (!resident || !peak)
    throw MemoryError(
        fmt::format("{}: VmRSS or VmHWM = absent: the memory of the process cannot be read: "
                    "check that /proc is mounted",
                    status_file));
  return {*resident, *peak, files};
}

bool reset_peak_resident(const std::string& file) {
  // Opening a file that does not exist would create it.
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) return false;
  std::ofstream out(file);
  out << '5' << std::flush;  // 5 resets the high-water mark; see proc(5)
  return static_cast<bool>(out);
}

}  // namespace shardmark
