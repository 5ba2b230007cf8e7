// SPDX-License-Identifier: Apache-2.0
// A file on a disk can be dropped from memory, and one on a tmpfs cannot.
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <io/files/regular_file.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::file_system_test {
namespace {

constexpr std::size_t bytes = 8 << 20;

void write_file(const std::string& path) {
  std::ofstream(path) << std::string(bytes, 'x');
  ::sync();
}

TEST(FileSystem, OfATmpfsKeepsItsFilesInMemory) {
  if (file_system_of("/dev/shm") != "tmpfs") GTEST_SKIP() << "/dev/shm is no tmpfs here";
  const std::string path = "/dev/shm/shardmark-test-" + std::to_string(::getpid());
  write_file(path);
  EXPECT_TRUE(forget_cached(path)) << "the request is taken";
  EXPECT_TRUE(is_cached(path)) << "and does nothing";
  ::unlink(path.c_str());
}

TEST(FileSystem, OfADiskDropsWhatIsAskedFor) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/file", kind = file_system_of(folder.path());
  EXPECT_EQ(kind.find(' '), std::string::npos) << kind;
  if (kind != "ext4" && kind != "xfs" && kind != "btrfs") GTEST_SKIP() << "no disk here: " << kind;
  write_file(path);
  EXPECT_TRUE(is_cached(path)) << "what was just written";
  EXPECT_TRUE(forget_cached(path));
  EXPECT_FALSE(is_cached(path));
}

TEST(FileSystem, OfWhatIsNotThereIsNotKnown) {
  EXPECT_EQ(file_system_of("/no/such/file"), "");
  EXPECT_FALSE(forget_cached("/no/such/file"));
  EXPECT_FALSE(is_cached("/no/such/file"));
}

}  // namespace
}  // namespace shardmark::test::file_system_test
