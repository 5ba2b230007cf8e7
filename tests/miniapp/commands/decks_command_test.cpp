// SPDX-License-Identifier: Apache-2.0
// `shardmark decks` lists every deck of inputs/ with a summary, and each can be given by its name.
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>

namespace shardmark::test::decks_command_test {
namespace {

TEST(Decks, AreListedAndFoundByName) {
  const Outcome list = run({.args = {"decks"}});
  ASSERT_EQ(list.status, 0) << list.err;
  std::set<std::string> listed, there;
  for (const std::string& line : lines_of(list.out)) {
    EXPECT_LE(line.size(), 120U) << line;
    EXPECT_GT(line.size(), 40U) << line;
    listed.insert(line.substr(0, line.find(' ')));
  }
  for (const auto& entry : std::filesystem::directory_iterator(SHARDMARK_TEST_INPUTS))
    if (entry.path().extension() == ".json") there.insert(entry.path().stem().string());
  EXPECT_EQ(listed, there);
  for (const std::string& name : listed)
    EXPECT_EQ(run({.args = {"deck", "check", name, "--set", "memory.device_gib=80"}}).status, 0)
        << name;
}

TEST(Decks, AnUnknownNameIsRefusedWithTheNearest) {
  const Outcome o = run({.args = {"plan", "gpt-tiny-z4", "--ranks", "2"}});
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("did you mean gpt-tiny-z"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace shardmark::test::decks_command_test
