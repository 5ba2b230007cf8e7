// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <core/error.hpp>
#include <core/memory/process_memory.hpp>
#include <core/text.hpp>

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

namespace {

namespace fs = std::filesystem;

// The parent of a process: the fourth word of its `stat`, after the name in parentheses.
int parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(text.substr(name_end + 1));
  std::string state;
  int parent = 0;
  words >> state >> parent;
  return parent;
}

std::map<int, std::vector<int>> children_of_all(const std::string& proc) {
  std::map<int, std::vector<int>> children;
  std::error_code error;
  for (fs::directory_iterator it(proc, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    int pid = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (read.ec == std::errc() && read.ptr == name.data() + name.size())
      children[parent_of(it->path())].push_back(pid);
  }
  return children;
}

// The pages of a process, those that it shares with others in proportion. A new process shares its
// parent's pages, which the parent's own figure contains.
std::int64_t proportional_bytes(const fs::path& process) {
  std::ifstream file(process / "smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kib = 0;
    if (words >> key >> kib && key == "Pss:") return kib * 1024;
  }
  return 0;
}

std::set<std::uint64_t> mapped_memory_files(const std::string& proc) {
  std::set<std::uint64_t> inodes;
  std::ifstream maps(proc + "/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string address, mode, offset, device, name;
    std::uint64_t inode = 0;
    if (words >> address >> mode >> offset >> device >> inode >> name &&
        name.starts_with("/memfd:"))
      inodes.insert(inode);
  }
  return inodes;
}

}  // namespace

OutsideMemory outside_memory(const std::string& proc) {
  OutsideMemory memory;
  const auto children = children_of_all(proc);
  std::vector<int> open{static_cast<int>(::getpid())};
  while (!open.empty()) {
    const auto found = children.find(open.back());
    open.pop_back();
    if (found == children.end()) continue;
    for (const int pid : found->second) {
      memory.children_bytes += proportional_bytes(fs::path(proc) / std::to_string(pid));
      open.push_back(pid);
    }
  }
  const auto mapped = mapped_memory_files(proc);
  std::set<std::uint64_t> seen;  // several descriptors may be of one file
  std::error_code error;
  for (fs::directory_iterator it(proc + "/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unreadable;
    if (!fs::read_symlink(it->path(), unreadable).string().starts_with("/memfd:")) continue;
    struct stat status {};
    if (::stat(it->path().c_str(), &status) != 0 || mapped.contains(status.st_ino)) continue;
    if (seen.insert(status.st_ino).second)
      memory.memfd_bytes += static_cast<std::int64_t>(status.st_blocks) * 512;
  }
  return memory;
}

std::string describe(const OutsideMemory& memory) {
  std::string text;
  if (memory.children_bytes > 0)
    text = fmt::format("{} in processes that it started", human_bytes(memory.children_bytes));
  if (memory.memfd_bytes > 0)
    text += fmt::format("{}{} in memory files", text.empty() ? "" : ", ",
                        human_bytes(memory.memfd_bytes));
  return text;
}

}  // namespace shardmark
