// SPDX-License-Identifier: Apache-2.0
// Rules of the disk queue: transfers are done in order, on a thread of their own; a transfer that
// fails or takes too long throws in the thread that waits for it.
#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <miniapp/execute/disk_queue.hpp>

namespace shardmark::test::disk_queue_test {
namespace {

constexpr std::int64_t bytes = std::int64_t{4} << 20;
constexpr auto size = static_cast<std::size_t>(bytes);
const auto nothing = [] {};

std::string folder() {
  return std::filesystem::temp_directory_path();
}

DiskQueue queue_with(double timeout_s = 60) {
  DiskOptions options;
  options.timeout_s = timeout_s;
  return DiskQueue(options);
}

TEST(DiskQueue, TransfersInOrderAndCountsBytes) {
  const SwapFile first(folder(), bytes), second(folder(), bytes);
  std::vector<std::byte> a(size), b(size), back_a(size), back_b(size);
  for (std::size_t i = 0; i < size; ++i) {
    a[i] = static_cast<std::byte>(i * 7);
    b[i] = static_cast<std::byte>(i * 13 + 1);
  }
  DiskQueue queue = queue_with();
  EXPECT_EQ(queue.start(Direction::host_to_nvme, first, 0, bytes, a.data()), 1U);
  queue.start(Direction::host_to_nvme, second, 0, bytes, a.data());
  queue.start(Direction::host_to_nvme, second, 0, bytes, b.data());  // over the one before
  queue.start(Direction::nvme_to_host, first, 0, bytes, back_a.data());
  const std::uint64_t last = queue.start(Direction::nvme_to_host, second, 0, bytes, back_b.data());
  const auto done = queue.hold(last, nothing);
  EXPECT_EQ(back_a, a);
  EXPECT_EQ(back_b, b);
  EXPECT_LT(done.begin_ns, done.end_ns);
  EXPECT_LE(queue.hold(1, nothing).end_ns, done.begin_ns) << "one after another";
  const LinkTimes& written = queue.times()[Direction::host_to_nvme];
  EXPECT_EQ(written.copies, 3);
  EXPECT_EQ(written.bytes, 3 * bytes);
  EXPECT_GT(written.busy_ns, 0);
  if (const auto kernel = queue.kernel_bytes(); kernel && queue.direct()) {
    EXPECT_GE(kernel->written, 3 * bytes);
    EXPECT_GE(kernel->read, 2 * bytes);
  }
  queue.finish();
  EXPECT_EQ(queue.start(Direction::nvme_to_host, first, 0, bytes, back_b.data()), last + 1);
  queue.hold(last + 1, nothing);
  EXPECT_EQ(back_b, a);
}

TEST(DiskQueue, AFailureThrowsWhereItIsWaitedFor) {
  const SwapFile file(folder(), bytes);
  std::vector<std::byte> memory(2 * size);
  DiskQueue queue = queue_with();
  queue.start(Direction::nvme_to_host, file, 0, 2 * bytes, memory.data());
  try {
    queue.hold(1, nothing);
    FAIL() << "it read beyond the file's end";
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("cannot be read"), std::string::npos) << e.what();
  }
}

TEST(DiskQueue, ADiskThatIsTooSlowIsAnErrorAndNotWaitedFor) {
  // The queue abandons its thread, which may still use these, so they are never freed.
  static const auto* file = new SwapFile(folder(), bytes);
  static auto* memory = new std::vector<std::byte>(size);
  DiskQueue queue = queue_with(1e-9);
  for (int i = 0; i < 8; ++i) queue.start(Direction::host_to_nvme, *file, 0, bytes, memory->data());
  try {
    queue.hold(8, nothing);
    FAIL() << "eight transfers in no time";
  } catch (const IoError& e) {
    for (const char* part : {"not done after", "too slow", "comm.timeout_s"})
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace shardmark::test::disk_queue_test
