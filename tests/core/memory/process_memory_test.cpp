// SPDX-License-Identifier: Apache-2.0
// The system's own figure: it sees memory that is touched, its high-water mark stays when memory
// goes and comes down when it is reset.
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <core/error.hpp>
#include <core/memory/process_memory.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// Touches 64 MiB and gives them back to the system, whatever the allocator would keep.
void touch_and_unmap() {
  void* const p =
      mmap(nullptr, 64 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(p, MAP_FAILED);
  std::memset(p, 1, 64 * mib);
  ASSERT_EQ(munmap(p, 64 * mib), 0);
}

TEST(ProcessMemory, the_high_water_mark_keeps_what_is_gone) {
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

TEST(ProcessMemory, says_so_when_it_cannot_be_read_or_reset) {
  EXPECT_THROW(process_memory("/nowhere/status"), MemoryError);
  EXPECT_THROW(process_memory("/proc/self/cmdline"), MemoryError);
  EXPECT_FALSE(reset_peak_resident("/nowhere/clear_refs"));
}

}  // namespace
}  // namespace shardmark
