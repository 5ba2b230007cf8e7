// SPDX-License-Identifier: Apache-2.0
// The memory of the process as the operating system counts it: touched memory counts, the
// high-water mark stays when memory is given back, and a reset lowers the mark.
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <core/error.hpp>
#include <core/memory/process_memory.hpp>

namespace shardmark::test::process_memory_test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// Touches 64 MiB and gives them back. mmap is used because malloc might keep the memory.
void touch_and_unmap() {
  void* const p =
      mmap(nullptr, 64 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(p, MAP_FAILED);
  std::memset(p, 1, 64 * mib);
  ASSERT_EQ(munmap(p, 64 * mib), 0);
}

TEST(ProcessMemory, the_high_water_mark_stays_when_memory_is_given_back) {
  const auto before = process_memory();
  touch_and_unmap();
  const auto after = process_memory();
  EXPECT_GE(after.peak_resident_bytes, before.resident_bytes + 60 * mib);
  EXPECT_LT(after.resident_bytes, before.resident_bytes + 32 * mib);
}

TEST(ProcessMemory, the_high_water_mark_can_be_reset) {
  touch_and_unmap();
  const auto before = process_memory();
  if (!reset_peak_resident()) GTEST_SKIP() << "this system does not allow it";
  const auto after = process_memory();
  EXPECT_LT(after.peak_resident_bytes, before.peak_resident_bytes - 32 * mib);
}

TEST(ProcessMemory, unreadable_files_are_reported) {
  EXPECT_THROW(process_memory("/nowhere/status"), MemoryError);
  EXPECT_THROW(process_memory("/proc/self/cmdline"), MemoryError);
  EXPECT_FALSE(reset_peak_resident("/nowhere/clear_refs"));
}

}  // namespace
}  // namespace shardmark::test::process_memory_test
