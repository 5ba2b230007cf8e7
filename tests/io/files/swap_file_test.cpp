// SPDX-License-Identifier: Apache-2.0
// Rules of a file that stands in for memory: what was written is read back, whatever the address of
// the memory and the step; the file has no name and exactly its size; mapped into memory it has the
// same bytes; an unusable folder is an error with a message.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include <io/files/swap_file.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::swap_file_test {
namespace {

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
  return data;
}

class SwapFileTest : public ::testing::TestWithParam<std::int64_t> {};

// Steps below, at and above the size of the bounce buffer; sizes that end within a step, and one
// size that no disk can transfer without the page cache.
TEST_P(SwapFileTest, GivesBackWhatItTook) {
  const ScratchFolder folder;
  const SwapFile::Bounce bounce;
  for (const std::int64_t bytes : {std::int64_t{4096}, std::int64_t{3} << 20, std::int64_t{12289}})
    for (const std::size_t shift : {0, 64, 1}) {
      SCOPED_TRACE(std::to_string(bytes) + " bytes, memory off by " + std::to_string(shift));
      SwapFile file(folder.path(), bytes);
      EXPECT_EQ(file.bytes(), bytes);
      const auto size = static_cast<std::size_t>(bytes);
      std::vector<std::byte> memory(size + 4096 + shift);
      auto* aligned =
          memory.data() + (4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096);
      const auto want = pattern(size, static_cast<unsigned>(shift));
      std::copy(want.begin(), want.end(), aligned + shift);
      file.write(0, bytes, aligned + shift, GetParam(), bounce);
      std::vector<std::byte> have(size + shift);
      file.read(0, bytes, have.data() + shift, GetParam(), bounce);
      EXPECT_TRUE(
          std::equal(want.begin(), want.end(), have.begin() + static_cast<std::ptrdiff_t>(shift)));
      EXPECT_EQ(file.bytes(), bytes);
    }
}
INSTANTIATE_TEST_SUITE_P(Steps, SwapFileTest,
                         ::testing::Values(4096, std::int64_t{1} << 20, std::int64_t{8} << 20));

TEST(SwapFile, MappedItIsTheSameBytesBothWays) {
  const ScratchFolder folder;
  const SwapFile::Bounce bounce;
  constexpr std::int64_t bytes = 1 << 16;
  const SwapFile file(folder.path(), bytes);
  const auto first = pattern(bytes, 1), second = pattern(bytes, 2);
  file.write(0, bytes, first.data(), bytes, bounce);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), file.map()));
  std::copy(second.begin(), second.end(), file.map());
  file.unmap();
  std::vector<std::byte> have(bytes);
  file.read(0, bytes, have.data(), bytes, bounce);
  EXPECT_EQ(have, second);
  file.write(0, bytes, first.data(), bytes, bounce);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), file.map())) << "an old page was kept";
}

TEST(SwapFile, LeavesNoNameBehind) {
  const ScratchFolder folder;
  const SwapFile file(folder.path(), 1 << 20);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SwapFile, AFolderThatCannotBeUsedIsAnError) {
  const ScratchFolder folder;
  const std::string none = folder.path("none");
  expect_says(message_of<IoError>([&] { free_disk_bytes(none); }),
              {none, "No such file", "mount the disk"});
  const std::string text = folder.write("text", "x");
  expect_says(message_of<IoError>([&] { free_disk_bytes(text); }), {text, "it is not a folder"});
  expect_says(message_of<IoError>([&] { SwapFile(none, 1); }),
              {none, "no file can be created", "nvme_path"});
  expect_says(message_of<IoError>([&] { SwapFile(folder.path(), std::int64_t{1} << 60); }),
              {folder.path(), "cannot be created", "free the space"});
  EXPECT_GT(free_disk_bytes(folder.path()), 0);
}

}  // namespace
}  // namespace shardmark::test::swap_file_test
