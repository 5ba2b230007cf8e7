// SPDX-License-Identifier: Apache-2.0
// What a deck makes ranks do beside their training (`perturb` with traffic in memory, `congestion`)
// changes no value: losses and state hashes are those of a quiet run, bit for bit. Such runs are
// VALID and unofficial, say what was moved, and bad input ends in one line. No time is checked.
#include <map>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::emulation_test {
namespace {

Outcome train(const Workplace& place, int ranks, const std::vector<std::string>& sets) {
  std::vector<std::string> args = place.run_args();
  for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
  return run({.args = args, .ranks = ranks});
}

// Steps and losses without the times in the last column.
std::vector<std::string> values_of(const Workplace& place) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(place.losses()))
    rows.push_back(line.substr(0, line.rfind(',')));
  return rows;
}

class Emulated : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Emulated, ::testing::Values(2, 3, 4));

TEST_P(Emulated, ChangesNoValue) {
  const int ranks = GetParam();
  const std::map<int, std::vector<std::vector<std::string>>> cases_of_stage{
      {0,
       {{"congestion.pattern=pairs", "congestion.mib=0.1"},
        {"congestion.pattern=all_to_all", "comm.backend=mpi"}}},
      {3,
       {{"congestion.pattern=incast", "congestion.gbps=0.5", "congestion.mib=4"},
        {"congestion.pattern=ring", "congestion.ranks=[0,1]", "perturb.ranks=[1]",
         "perturb.memory_share=0.5"}}}};
  for (const auto& [stage, cases] : cases_of_stage) {
    const Workplace place;
    place.deck(stage, {{"run", {{"steps", 4}, {"reductions", "ordered"}}}});
    ASSERT_EQ(train(place, ranks, {}).status, 0);
    const auto quiet = values_of(place);
    const Json hashes = place.report().at("state_hash");
    EXPECT_FALSE(place.report().contains("congestion"));
    for (const auto& sets : cases) {
      SCOPED_TRACE(sets[0]);
      const Outcome outcome = train(place, ranks, sets);
      ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
      EXPECT_NE(outcome.out.find("congestion: " + sets[0].substr(19)), std::string::npos);
      EXPECT_EQ(values_of(place), quiet);
      const Json report = place.report();
      EXPECT_EQ(report.at("state_hash"), hashes);
      EXPECT_EQ(report.at("result"), "VALID");
      EXPECT_EQ(report.at("class"), "unofficial");
      EXPECT_GT(report.at("congestion").at("moved_bytes"), 0);
      EXPECT_GT(report.at("congestion").at("flows"), 0);
    }
  }
}

TEST_P(Emulated, TrafficInMemoryIsReported) {
  const Workplace place;
  place.deck(2, {{"run", {{"steps", 6}}}});
  const Outcome outcome =
      train(place, GetParam(), {"perturb.random=1", "perturb.memory_gbps=1", "perturb.every=2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_NE(outcome.out.find("perturb: 1 GB/s of memory traffic, every 2 steps"),
            std::string::npos);
  const Json perturb = place.report().at("perturb");
  EXPECT_EQ(perturb.at("slow_steps"), 3);
  EXPECT_EQ(perturb.at("ranks").size(), 1u);
  EXPECT_GT(perturb.at("memory_bytes"), 0);
  EXPECT_TRUE(perturb.at("amplification").is_null());
  EXPECT_TRUE(perturb.at("lost_seconds").is_number());
}

TEST_P(Emulated, RefusesWhatTheRunLacks) {
  const Workplace place;
  place.deck(1);
  const auto refuses = [&](const std::vector<std::string>& sets, const std::string& what) {
    const Outcome outcome = train(place, GetParam(), sets);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    const std::size_t at = outcome.err.find(what);
    ASSERT_NE(at, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find(what, at + 1), std::string::npos) << outcome.err;
  };
  refuses({"congestion.ranks=[0,9]"}, "congestion.ranks = 9: must be a rank of this run");
  refuses({"congestion.ranks=[1]"}, "congestion.ranks: traffic among 1 rank");
  refuses({"congestion.hosts=[\"nowhere\"]"}, "congestion.hosts = \"nowhere\"");
  refuses({"congestion.pattern=star"}, "congestion.pattern");
  refuses({"perturb.random=1", "perturb.memory_share=1.5"}, "perturb.memory_share = 1.5");
}

TEST(EmulatedSweep, VariesBoth) {
  const Workplace place;
  const std::string deck = place.deck(3, {{"congestion", {{"pattern", "ring"}}},
                                          {"perturb", {{"ranks", {0}}, {"memory_share", 0.1}}}});
  const Outcome outcome = run({.args = {"sweep", deck, "--vary", "congestion.mib=0.1,1", "--vary",
                                        "perturb.memory_share=0,0.5", "--out", place.out()},
                               .ranks = 2});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string table = read_text(place.out() + "/sweep.csv");
  EXPECT_EQ(lines_of(table).size(), 5u) << table;
}

}  // namespace
}  // namespace shardmark::test::emulation_test
