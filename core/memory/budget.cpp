// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/memory/budget.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// Reads a file that holds one number. Empty when the file is absent or says "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  std::string word;
  if (std::ifstream file(path); !(file >> word)) return std::nullopt;
  return to_number(word);
}

/// Reads the number that follows `key` in a file of lines "key number". Empty when no line has it.
std::optional<std::int64_t> read_keyed(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first, second;
    if (words >> first >> second && first == key) return to_number(second);
  }
  return std::nullopt;
}

/// The file names of one version of control groups.
struct CgroupNames {
  std::string mount, limit, usage, reclaimable;
};

/// The folder of the process, then each of its parents up to the mount point. The paths stay text
/// because inside a container a path of the host need not exist.
std::vector<std::string> folder_and_parents(std::string path) {
  std::vector<std::string> folders;
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    folders.push_back(path);
    if (path.empty()) return folders;
    path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

/// The smallest remainder of the limits from `path` upwards. Empty when no folder has a limit.
std::optional<FoundMemory> left_under(const CgroupNames& names, const std::string& path) {
  std::optional<FoundMemory> least;
  for (const std::string& folder : folder_and_parents(path)) {
    const std::string at = names.mount + folder;
    const auto limit = read_number(at + "/" + names.limit);
    const auto usage = read_number(at + "/" + names.usage);
    if (!limit || !usage) continue;
    const auto cache = read_keyed(at + "/memory.stat", names.reclaimable).value_or(0);
    const std::int64_t used = std::max<std::int64_t>(0, *usage - cache);
    const std::int64_t left = std::max<std::int64_t>(0, *limit - used);
    if (!least || left < least->bytes) least = {left, "cgroup limit of " + at};
  }
  return least;
}

std::optional<FoundMemory> left_under_cgroups(const MemoryFiles& files) {
  const CgroupNames v2{files.cgroup_root, "memory.max", "memory.current", "inactive_file"};
  const CgroupNames v1{files.cgroup_root + "/memory", "memory.limit_in_bytes",
                       "memory.usage_in_bytes", "total_inactive_file"};
  std::optional<FoundMemory> least;
  std::ifstream file(files.cgroup);
  for (std::string line; std::getline(file, line);) {  // "<id>:<controllers>:<path>"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::optional<FoundMemory> left;
    if (controllers == ",,")
      left = left_under(v2, line.substr(second + 1));
    else if (controllers.find(",memory,") != std::string::npos)
      left = left_under(v1, line.substr(second + 1));
    if (left && (!least || left->bytes < least->bytes)) least = left;
  }
  return least;
}

}  // namespace

FoundMemory find_memory(int ranks_per_node, const MemoryFiles& files) {
  std::optional<FoundMemory> least = left_under_cgroups(files);
  if (const auto kib = read_keyed(files.meminfo, "MemAvailable:")) {
    // Version 1 writes "no limit" as a huge number, so this comparison is needed there as well.
    if (!least || *kib * 1024 < least->bytes) least = {*kib * 1024, "MemAvailable of the node"};
  }
  if (!least)
    throw MemoryError(
        fmt::format("{}: MemAvailable = absent, and no cgroup limit was found: the free memory is "
                    "unknown: give memory.device_gib and memory.host_gib in the deck",
                    files.meminfo));
  const int ranks = std::max(1, ranks_per_node);
  return {least->bytes / ranks, fmt::format("{} ({})", least->source, plural(ranks, "rank"))};
}

std::int64_t node_memory_bytes(const MemoryFiles& files) {
  return read_keyed(files.meminfo, "MemTotal:").value_or(0) * 1024;
}

}  // namespace shardmark
