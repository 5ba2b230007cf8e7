// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <ctime>
#include <filesystem>
#include <vector>

#include <fmt/core.h>
#include <link.h>

#include <core/text_of.hpp>
#include <io/files/hash.hpp>
#include <miniapp/provenance/version.hpp>

namespace shardmark {

std::string version() {
  return SHARDMARK_TEXT_OF(SHARDMARK_VERSION);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, sizeof "2026-01-01T00:00:00Z"> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string version_page(const std::string& commit) {
  auto built = library_versions();
  built.erase("shardmark");
  built.erase("mpi_standard");
  built.erase("system");
  built.erase("mpi_device_buffers");  // known only where MPI runs
  std::string page = fmt::format("shardmark {}\n", version());
  if (!commit.empty()) page += fmt::format("  {:<16} {}\n", "commit", commit);
  for (const auto& [name, value] : built) page += fmt::format("  {:<16} {}\n", name, value);
  return page;
}

namespace {

int add_path(dl_phdr_info* info, std::size_t, void* paths) {
  auto& list = *static_cast<std::vector<std::string>*>(paths);
  const std::string path = info->dlpi_name;
  if (list.empty())
    list.emplace_back("/proc/self/exe");  // the first object is the program, which has no name
  else if (path.starts_with('/'))         // the kernel's vdso has no file
    list.push_back(path);
  return 0;
}

std::string file_name(const std::string& path) {
  std::error_code error;
  const auto target = path == "/proc/self/exe" ? std::filesystem::read_symlink(path, error)
                                               : std::filesystem::path(path);
  return target.filename().string();
}

// What only the rank that reads a node's meters loads: it computes nothing.
bool is_of_meters(const std::string& name) {
  return name.starts_with("libnvidia-ml.");
}

std::string as_text(const std::map<std::string, std::string>& binaries) {
  std::string text;
  for (const auto& [name, hash] : binaries)
    if (!is_of_meters(name)) text += fmt::format("{} {}\n", name, hash);
  return text;
}

// The first line that only one of the two has.
std::string difference(const std::string& mine, const std::string& other) {
  std::size_t at = 0;
  while (at < mine.size() && at < other.size() && mine[at] == other[at]) ++at;
  const auto line = [at](const std::string& text) {
    const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return begin >= text.size() ? std::string("nothing else")
                                : text.substr(begin, text.find('\n', begin) - begin);
  };
  return fmt::format("has loaded {}, rank 0 {}", line(other), line(mine));
}

}  // namespace

std::map<std::string, std::string> loaded_binaries() {
  std::vector<std::string> paths;
  ::dl_iterate_phdr(&add_path, &paths);
  std::map<std::string, std::string> binaries;
  for (const std::string& path : paths) binaries[file_name(path)] = file_hash_hex(path);
  return binaries;
}

std::string compare_binaries(const std::map<std::string, std::string>& mine,
                             const std::vector<RankInfo>& ranks, Peers& peers) {
  const auto all = peers.gather(as_text(mine));
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      return fmt::format("rank {} (host {}) {}", r, ranks[r].host, difference(all[0], all[r]));
  return {};
}

}  // namespace shardmark
