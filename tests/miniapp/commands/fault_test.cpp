// SPDX-License-Identifier: Apache-2.0
// Rule: a run that is broken on purpose ends INVALID and names the check that found it; any other
// run ends VALID.

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::fault_test {
namespace {

struct Fault {
  std::string name;
  std::string check;  // a regular expression for the checks that may find it
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

const Fault faults[] = {
    {"leak", "memory: rank [0-9]+: .*predicted [0-9]+ bytes, measured [0-9]+"},
    {"extra_call", "calls: rank [0-9]+: .*predicted [0-9]+ calls"},
    {"skip_wait", "(finite|replicas|self_check): "},
    {"flip_bit", "(replicas|self_check): "},
    {"stale_shard", "(replicas|self_check): "},
    {"nan", "finite: .*nan"},
    {"wrong_update", "replay: step [0-9]+, rank 0: the updates of the parameters differ by"},
    {"fewer_elems", "calls: rank [0-9]+: .*predicted [0-9]+ calls of [0-9]+ elements"},
    {"overrun", "self_check: stage [0-9]: rank 0: the memory of .* was written beyond its end"}};

class Faults : public ::testing::TestWithParam<std::tuple<Fault, int>> {};

TEST_P(Faults, EndInvalidNamingTheirCause) {
  const auto& [fault, stage] = GetParam();
  const Workplace place;
  place.deck(stage);
  const Outcome outcome =
      run({.args = place.run_args(), .ranks = 2, .environment = {{"SHARDMARK_FAULT", fault.name}}});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 3U);
  const std::string& last = lines.back();
  EXPECT_TRUE(matches(last, R"(RESULT=INVALID \(.+\))")) << last;
  // Stage 0 has no shards, so nothing is stale, and the run must say that no check found the fault.
  const bool unseen = fault.name == "stale_shard" && stage == 0;
  EXPECT_TRUE(contains(last, unseen ? "fault: SHARDMARK_FAULT=stale_shard" : fault.check)) << last;
  EXPECT_NE(lines[lines.size() - 2].find("SHARDMARK_FAULT=" + fault.name), std::string::npos)
      << "the class must name the fault";
  EXPECT_EQ(place.report().at("result"), "INVALID");
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Fault, int>>& info) {
  return std::get<0>(info.param).name + "_z" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Outer, Faults,
                         ::testing::Combine(::testing::ValuesIn(faults), ::testing::Values(0, 3)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Inner, Faults,
                         ::testing::Combine(::testing::ValuesIn(faults), ::testing::Values(1, 2)),
                         name_of);

// With sharding in two levels, no collective uses the world's own lane.
TEST(FaultsInGroups, EndInvalidNamingTheirCause) {
  for (const Fault& fault : faults) {
    if (fault.name == "leak" || fault.name == "nan" || fault.name == "wrong_update" ||
        fault.name == "overrun")
      continue;  // concern no communicator
    const Workplace place;
    place.deck(3);
    std::vector<std::string> args = place.run_args();
    for (const char* set : {"run.schedule=paper", "run.shard_size=2"}) {
      args.push_back("--set");
      args.push_back(set);
    }
    const Outcome outcome =
        run({.args = args, .ranks = 4, .environment = {{"SHARDMARK_FAULT", fault.name}}});
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    const auto lines = lines_of(outcome.out);
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(contains(lines.back(), fault.check)) << lines.back();
  }
}

// Only offload copies between host and device; without it, the run says that no check found the
// fault.
TEST(FaultsOfTheLink, EndInvalidNamingTheirCause) {
  for (const bool offloads : {true, false}) {
    const Workplace place;
    Json patch = Json::object();
    if (offloads)
      patch["deepspeed"]["zero_optimization"]["offload_optimizer"] = {{"device", "cpu"}};
    place.deck(2, patch);
    const Outcome outcome = run(
        {.args = place.run_args(), .ranks = 2, .environment = {{"SHARDMARK_FAULT", "extra_copy"}}});
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    const auto lines = lines_of(outcome.out);
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(
        contains(lines.back(), offloads ? "copies: rank [0-9]+: .*predicted ([0-9]+) copies of "
                                          "[0-9]+ bytes in all, measured [0-9]+"
                                        : "fault: SHARDMARK_FAULT=extra_copy: nothing in this run"))
        << lines.back();
  }
}

// The last line of a run of the tiny deck on two ranks that must be INVALID.
std::string verdict_of(const std::string& fault, int stage, const std::vector<std::string>& sets) {
  const Workplace place;
  Json patch = Json::object();
  if (stage > 0) patch["deepspeed"]["zero_optimization"]["offload_optimizer"] = {{"device", "cpu"}};
  place.deck(stage, patch);
  std::vector<std::string> args = place.run_args();
  for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
  const Outcome outcome =
      run({.args = args, .ranks = 2, .environment = {{"SHARDMARK_FAULT", fault}}});
  EXPECT_EQ(outcome.status, 1) << fault << ": " << outcome.err;
  const auto lines = lines_of(outcome.out);
  return lines.empty() ? "" : lines.back();
}

// A check that looks at one rank only would miss the fault on the other one. The checks of what a
// rank does by itself name it.
TEST(FaultsOnEachRank, EndInvalid) {
  for (const int rank : {0, 1}) {
    const std::string on = ":" + std::to_string(rank), named = "rank " + std::to_string(rank);
    const Fault each[] = {{"leak" + on, "memory: " + named + ": "},
                          {"overrun" + on, "memory: " + named + ": the memory of "},
                          {"extra_call" + on, "calls: " + named + ": .*predicted [0-9]+ calls"},
                          {"extra_copy" + on, "copies: " + named + ": "},
                          {"flip_bit" + on, "values: step [0-9]+, " + named + ": "},
                          {"skip_wait" + on, "values: step [0-9]+, " + named + ": "},
                          {"stale_shard" + on, "values: step [0-9]+, " + named + ": "},
                          {"nan" + on, "finite: .*nan"}};
    for (const Fault& fault : each) {
      const std::string last = verdict_of(fault.name, 3, {});
      EXPECT_TRUE(contains(last, fault.check)) << fault.name << ": " << last;
    }
  }
}

// At stage 0 a micro-batch has no collective, so only the number of its runs is wrong.
TEST(RepeatedMicroBatch, IsSeenInEveryStage) {
  for (const int stage : {0, 2, 3}) {
    const std::string last = verdict_of("repeat_micro", stage, {"run.steps=7"});
    EXPECT_TRUE(contains(last,
                         "calls: rank 0: segment [a-z0-9_.]+: [0-9]+ runs are planned, "
                         "[0-9]+ were made"))
        << last;
  }
}

// A defect of ShardMark itself: a plan that is not legal.
class Defect : public ::testing::TestWithParam<int> {};

TEST_P(Defect, EndsWithStatus70AndSaysWhatToReport) {
  const Workplace place;
  place.deck(3);
  const Outcome outcome = run({.args = place.run_args(),
                               .ranks = GetParam(),
                               .environment = {{"SHARDMARK_FAULT", "illegal_plan"}}});
  EXPECT_EQ(outcome.status, 70) << outcome.err;
  const auto lines = lines_of(outcome.err);
  ASSERT_EQ(lines.size(), 1U) << outcome.err;
  for (const char* part : {"plan: not legal", "a defect in ShardMark", "report", "version",
                           "the deck", "--set", "number of ranks"})
    EXPECT_NE(lines[0].find(part), std::string::npos) << part << ": " << lines[0];
}

INSTANTIATE_TEST_SUITE_P(Program, Defect, ::testing::Values(0, 1, 2, 3));

// Scripts read the end of a report.
class Sound : public ::testing::TestWithParam<int> {};

TEST_P(Sound, RunsEndWithTheirThreeLines) {
  const Workplace place;
  place.deck(3);
  Program program({.args = place.run_args(), .ranks = GetParam()});
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 3U);
  const std::size_t n = lines.size();
  EXPECT_TRUE(matches(lines[n - 3], R"(FOM tokens_per_s=[0-9.]+(e[+-]?\d+)?)")) << lines[n - 3];
  EXPECT_TRUE(matches(lines[n - 2], R"(CLASS=unofficial \(.+\))")) << lines[n - 2];
  EXPECT_EQ(lines[n - 1], "RESULT=VALID");
  EXPECT_TRUE(outcome.out.ends_with("\nRESULT=VALID\n")) << "nothing may follow the result";
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

INSTANTIATE_TEST_SUITE_P(Program, Sound, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace shardmark::test::fault_test
