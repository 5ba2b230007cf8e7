// SPDX-License-Identifier: Apache-2.0
// A Kokkos tool that writes each region that begins, with its depth, to a file per process in the
// folder SHARDMARK_TEST_REGIONS. The functions have the names that Kokkos looks for.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

namespace {

std::FILE* file = nullptr;
int depth = 0;

}  // namespace

extern "C" {

void kokkosp_init_library(int, std::uint64_t, std::uint32_t, void*) {
  const char* folder = std::getenv("SHARDMARK_TEST_REGIONS");
  if (folder != nullptr)
    file = std::fopen((std::string(folder) + "/" + std::to_string(getpid())).c_str(), "w");
}

void kokkosp_push_profile_region(const char* name) {
  if (file != nullptr) std::fprintf(file, "%d %s\n", depth, name);
  ++depth;
}

void kokkosp_pop_profile_region() {
  --depth;
}

void kokkosp_finalize_library() {
  if (file == nullptr) return;
  std::fprintf(file, "%d end\n", depth);
  std::fclose(file);
  file = nullptr;
}
}
