// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <ctime>

#include <fmt/core.h>

#include <core/text_of.hpp>
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

}  // namespace shardmark
