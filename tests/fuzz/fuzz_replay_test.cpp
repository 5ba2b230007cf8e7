// SPDX-License-Identifier: Apache-2.0
// Every file of the fuzzers' corpus, without a fuzzer: a reader accepts it or refuses it in one
// line.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include <tests/fuzz/readers.hpp>

namespace shardmark::test::fuzz_replay_test {
namespace {

TEST(FuzzReplay, the_corpus_crashes_no_reader) {
  for (const auto& [name, read] : readers()) {
    int files = 0;
    const std::string folder = std::string(SHARDMARK_TESTS) + "/fuzz/corpus/" + name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      SCOPED_TRACE(entry.path().string());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(file), {});
      EXPECT_NO_THROW(read(bytes));
      ++files;
    }
    EXPECT_GT(files, 3) << name;
  }
}

}  // namespace
}  // namespace shardmark::test::fuzz_replay_test
