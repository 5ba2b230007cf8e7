// SPDX-License-Identifier: Apache-2.0
// What VALID proves: a run that gets wrong values, other inputs, a slow clock or more memory than
// it says ends INVALID and names the cause. The faults come from a preloaded library, so the
// program cannot know of them.

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::trust_test {
namespace {

using Environment = std::map<std::string, std::string>;

// The last line of a run of the tiny deck that must be INVALID.
std::string verdict_of(const Workplace& place, Environment faults,
                       const std::vector<std::string>& sets = {}, int ranks = 2) {
  std::vector<std::string> args = place.run_args();
  for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
  faults["LD_PRELOAD"] = SHARDMARK_TEST_PRELOAD;
  const Outcome outcome = run({.args = args, .ranks = ranks, .environment = faults});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const auto lines = lines_of(outcome.out);
  return lines.empty() ? "" : lines.back();
}

struct Change {
  int stage;
  std::string values;  // of SHARDMARK_TEST_VALUES
  std::string seen;    // verb
  std::vector<std::string> sets = {};
};

constexpr const char* quantized = "deepspeed.zero_optimization.zero_quantized_weights=true";
constexpr const char* none_persistent =
    "deepspeed.zero_optimization.stage3_param_persistence_threshold=0";

TEST(Values, OfQuantizedGathersAreValid) {
  const Workplace place;
  place.deck(3);
  std::vector<std::string> args = place.run_args();
  args.insert(args.end(), {"--set", quantized, "--set", none_persistent});
  const Outcome outcome = run({.args = args, .ranks = 2});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("\nRESULT=VALID\n")) << outcome.out;
}

TEST(Values, ChangedInTimedStepsAreSeen) {
  const Change changes[] = {
      {3, "MPI_Ireduce_scatter_block 0 22 1 1000000", "reduce_scatter"},
      {3, "MPI_Iallgather 1 20 1 1000000", "all_gather"},
      {2, "MPI_Iallgather 0 30 1 1000000", "all_gather"},
      {1, "MPI_Iallgather 1 30 1 1000000", "all_gather"},
      {0, "MPI_Iallreduce -1 27 1 1000000", "all_reduce"},
      {3, "MPI_Ialltoall 1 0 1 1000000", "reduce_scatter", {"run.reductions=ordered"}},
      {3, "MPI_Iallgather 0 2 1 1000000", "all_gather", {quantized, none_persistent}},
  };
  for (const Change& change : changes) {
    const Workplace place;
    place.deck(change.stage);
    std::vector<std::string> sets{"comm.backend=mpi"};
    sets.insert(sets.end(), change.sets.begin(), change.sets.end());
    const std::string last = verdict_of(place, {{"SHARDMARK_TEST_VALUES", change.values}}, sets);
    EXPECT_TRUE(contains(last, "values: step [0-9]+, rank [0-9]+: " + change.seen)) << last;
  }
}

TEST(Inputs, ThatDifferOnOneRankAreSeen) {
  const Workplace place;
  place.deck(3);
  const std::string other = place.write("other.bin", std::string(20000, 'x'));
  const std::string last = verdict_of(place, {{"SHARDMARK_TEST_DATA", "text.bin " + other}});
  EXPECT_TRUE(contains(last, "inputs: in step [0-9]+, rank 1 trained on other data")) << last;
}

TEST(Binaries, ThatDifferOnOneRankIsSeen) {
  const Workplace place;
  place.deck(3);
  const std::string last = verdict_of(place, {{"SHARDMARK_TEST_LIBRARY", "libutil.so.1"}});
  EXPECT_TRUE(contains(last, "inputs: rank 1 [(]host [^)]+[)] has loaded libutil.so.1")) << last;
}

TEST(Inputs, OfTheEnvironmentThatDifferOnOneRankAreSeen) {
  const Workplace place;
  place.deck(3);
  const std::string last = verdict_of(place, {{"SHARDMARK_TEST_VARIABLE", "UCX_RNDV_THRESH 8192"}});
  EXPECT_TRUE(contains(last,
                       "inputs: environment: UCX_RNDV_THRESH: rank 1 has .8192., rank 0 has "
                       "none"))
      << last;
}

TEST(Clock, ThatRunsSlowIsSeen) {
  const Workplace place;
  place.deck(3);
  const std::string last = verdict_of(place, {{"SHARDMARK_TEST_CLOCK", "0.01"}}, {"run.steps=200"});
  EXPECT_TRUE(contains(last, "clocks: rank [0-9]+: the timed steps took .* by the monotonic clock"))
      << last;
}

TEST(Memory, TakenBeforeTheStartIsSeen) {
  for (const char* kind : {"heap", "child", "memfd"}) {
    const Workplace place;
    place.deck(3);
    const std::string last =
        verdict_of(place, {{"SHARDMARK_TEST_MEMORY", std::string(kind) + " 800"}},
                   {"memory.allowance_mib=512"});
    EXPECT_TRUE(contains(last, "system_memory: rank 1: ")) << kind << ": " << last;
    if (kind == std::string("child")) {
      EXPECT_TRUE(contains(last, "in processes that it started")) << last;
    }
    if (kind == std::string("memfd")) {
      EXPECT_TRUE(contains(last, "in memory files")) << last;
    }
  }
}

}  // namespace
}  // namespace shardmark::test::trust_test
