// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <unistd.h>

#include <core/system_pages.hpp>

namespace shardmark {

std::int64_t system_page_bytes() {
  static const auto bytes = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  return bytes > 0 ? bytes : 4096;
}

std::int64_t huge_page_bytes(const std::string& size_file) {
  std::int64_t bytes = 0;
  std::ifstream file(size_file);
  return file >> bytes && bytes > 0 ? bytes : std::int64_t{2} << 20;
}

}  // namespace shardmark
