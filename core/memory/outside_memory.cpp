// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <core/memory/outside_memory.hpp>
#include <core/text.hpp>

namespace shardmark {
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
