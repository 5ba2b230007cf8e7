// SPDX-License-Identifier: Apache-2.0
// `shardmark decks` lists every deck of inputs/ with a summary, and `shardmark machines` every
// machine file; each can be given by its name, and an unknown name is answered with those that were
// probably meant.
#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

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

std::set<std::string> machine_files() {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(SHARDMARK_TEST_INPUTS + std::string("/machines")))
    if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  return names;
}

TEST(Machines, AreListedAndFoundByName) {
  const Outcome list = run({.args = {"machines"}});
  ASSERT_EQ(list.status, 0) << list.err;
  const std::vector<std::string> lines = lines_of(list.out);
  std::set<std::string> listed;
  for (std::size_t i = 1; i < lines.size() && !lines[i].empty(); ++i) {
    EXPECT_LE(lines[i].size(), 120U) << lines[i];
    listed.insert(lines[i].substr(0, lines[i].find(' ')));
  }
  EXPECT_EQ(listed, machine_files());
  for (const std::string& name : listed)
    EXPECT_EQ(run({.args = {"machine", "check", name}}).status, 0) << name;
}

TEST(Machines, AreListedForScriptsWithTheSourceOfEachFigure) {
  const Outcome list = run({.args = {"machines", "--format", "json"}});
  ASSERT_EQ(list.status, 0) << list.err;
  const Json machines = Json::parse(list.out).at("machines");
  EXPECT_EQ(machines.size(), machine_files().size());
  for (const Json& m : machines) {
    SCOPED_TRACE(m.at("name"));
    EXPECT_GT(m.at("memory_bytes").get<double>(), 1e9);
    EXPECT_GT(m.at("devices_per_node").get<int>(), 0);
    EXPECT_GT(m.at("network").at("node_bytes_per_s").get<double>(), 1e9);
    std::size_t counted = 0;
    for (const auto& kind : m.at("figures_by_kind").items())
      counted += kind.value().get<std::size_t>();
    EXPECT_EQ(counted, m.at("figures").size());
    EXPECT_FALSE(m.at("source").get<std::string>().empty());
  }
}

TEST(Machines, AnUnknownNameIsAnsweredWithThoseThatContainIt) {
  for (const std::string typed : {"dgx-a100", "h100", "MI3"}) {
    const Outcome o = run({.args = {"predict", "gpt-tiny-z3", "--machine", typed}});
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find("`shardmark machines` lists them"), std::string::npos) << o.err;
    const std::string words = o.err.substr(std::min(o.err.find("did you mean"), o.err.size()));
    const std::string part = typed == "MI3" ? "mi3" : typed;
    for (const std::string& name : machine_files())
      EXPECT_EQ(words.find(name) != std::string::npos, name.find(part) != std::string::npos)
          << name << ": " << o.err;
  }
}

TEST(Machines, AMissingFileIsAnsweredWithShippedOnesOfItsName) {
  const Outcome o =
      run({.args = {"predict", "gpt-tiny-z3", "--machine", "inputs/machines/dgx-h10.json"}});
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("did you mean dgx-h100? `shardmark machines` lists them"), std::string::npos)
      << o.err;
  const Outcome other = run({.args = {"machine", "check", "none/of/these.json"}});
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(other.err.find("did you mean"), std::string::npos) << other.err;
}

TEST(Commands, AnUnknownCommandOrOptionIsAnsweredWithTheNearest) {
  struct Case {
    std::vector<std::string> args;
    std::string meant;
  };
  const std::vector<Case> cases{
      {{"prdict", "x"}, "did you mean predict?"},
      {{"consolidate", "x"}, "did you mean ckpt consolidate?"},
      {{"machine", "chek"}, "did you mean check?"},
      {{"machine-check"}, "did you mean machine check?"},
      {{"plan", "x", "--rank-per-node", "2"}, "did you mean --ranks-per-node?"},
      {{"run", "x", "--output=y"}, "did you mean --out?"}};
  for (const Case& c : cases) {
    const Outcome o = run({.args = c.args});
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find(c.meant), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace shardmark::test::decks_command_test
