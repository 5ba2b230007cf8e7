// SPDX-License-Identifier: Apache-2.0
// Chakra traces contain the collectives of the plan, call by call and byte by byte, and every node
// waits only for earlier ones. Those of a run have its times.
#include <algorithm>

#include <gtest/gtest.h>

#include <tests/support/chakra_reader.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::trace_command_test {
namespace {

const std::map<std::int64_t, std::string> verbs{
    {0, "all_reduce"}, {1, "reduce"}, {2, "all_gather"}, {5, "broadcast"}, {7, "reduce_scatter"}};

ChakraTrace trace_of(const std::string& folder, const std::string& stem, int rank) {
  return read_chakra(read_text(folder + "/" + stem + "." + std::to_string(rank) + ".et"));
}

void expect_sound(const ChakraTrace& trace) {
  EXPECT_EQ(trace.version, "0.0.4");
  std::uint64_t id = 0;
  for (const ChakraNode& node : trace.nodes) {
    EXPECT_EQ(node.id, ++id);
    EXPECT_TRUE(node.type == 4 || node.type == 7) << node.name;
    for (const std::uint64_t before : node.depends_on) {
      EXPECT_GE(before, 1U) << node.name;
      EXPECT_LT(before, node.id) << node.name;
    }
  }
}

// Calls and bytes by verb as the plan counts them: the whole array of every collective.
void expect_planned(const ChakraTrace& trace, const Json& volume, int ranks) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> seen;
  for (const ChakraNode& node : trace.nodes) {
    if (!node.collective()) continue;
    const std::string verb = verbs.at(node.numbers.at("comm_type"));
    ++seen[verb].first;
    seen[verb].second += node.numbers.at("comm_size") * (verb == "all_gather" ? ranks : 1);
    EXPECT_EQ(node.numbers.at("is_cpu_op"), 0);
  }
  std::size_t planned = 0;
  for (const auto& [verb, traffic] : volume.items()) {
    if (verb == "barrier") continue;
    ++planned;
    EXPECT_EQ(seen[verb].first, traffic.at("calls")) << verb;
    EXPECT_EQ(seen[verb].second, traffic.at("bytes")) << verb;
  }
  EXPECT_EQ(seen.size(), planned);
}

TEST(ChakraTraces, HaveTheCollectivesOfThePlanAndTheWorkOfItsKernels) {
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {1, 3}) {
      const Workplace place;
      const std::string deck =
          place.deck(stage, {{"deepspeed", {{"gradient_accumulation_steps", 3}}}});
      const std::string n = std::to_string(ranks);
      const Outcome o = run({.args = {"trace", deck, "--ranks", n, "--out", place.out()}});
      ASSERT_EQ(o.status, 0) << o.err;
      const Json plan =
          Json::parse(run({.args = {"plan", deck, "--ranks", n, "--format", "json"}}).out);
      double planned = 0, traced = 0;
      for (const auto& [phase, work] : plan.at("work").items())
        if (work.is_object()) planned += work.at("flops").get<double>();
      std::vector<std::string> first;
      for (int rank = 0; rank < ranks; ++rank) {
        const ChakraTrace trace = trace_of(place.out(), "tiny", rank);
        expect_sound(trace);
        expect_planned(trace, plan.at("volume").at("steady"), ranks);
        EXPECT_EQ(trace.numbers.at("rank"), rank);
        std::vector<std::string> calls;
        for (const ChakraNode& node : trace.nodes) {
          EXPECT_EQ(node.duration_us, 0U);
          if (node.collective())
            calls.push_back(verbs.at(node.numbers.at("comm_type")) + " of " +
                            std::to_string(node.numbers.at("comm_size")));
          if (rank == 0 && !node.collective()) traced += double(node.numbers.at("num_ops"));
        }
        if (rank == 0) first = calls;
        EXPECT_EQ(calls, first) << "all ranks make the same calls in the same order";
      }
      EXPECT_NEAR(traced, planned, 1e-6 * planned);
    }
}

// A kernel that reads gathered parameters waits for their all_gather.
TEST(ChakraTraces, OrderKernelsAfterTheCollectivesThatTheyNeed) {
  const Workplace place;
  const std::string deck = place.deck(
      3, {{"deepspeed", {{"zero_optimization", {{"stage3_param_persistence_threshold", 0}}}}}});
  ASSERT_EQ(run({.args = {"trace", deck, "--ranks", "2", "--out", place.out()}}).status, 0);
  const ChakraTrace trace = trace_of(place.out(), "tiny", 0);
  std::size_t waits = 0, forward = 0;
  for (const ChakraNode& node : trace.nodes) {
    if (node.collective() || node.texts.at("phase") != "forward") continue;
    ++forward;
    for (const std::uint64_t before : node.depends_on) {
      const ChakraNode& other = trace.nodes[before - 1];
      if (!other.collective()) continue;
      ++waits;
      EXPECT_EQ(verbs.at(other.numbers.at("comm_type")), "all_gather") << other.name;
    }
    EXPECT_GE(node.numbers.at("device_bytes"), 1);
  }
  EXPECT_GT(forward, 5U);
  EXPECT_GE(waits, 1U);
}

TEST(ChakraTraces, NameTheirGroups) {
  const Workplace place;
  const std::string deck = place.deck(3, {{"run", {{"schedule", "paper"}, {"shard_size", 2}}}});
  ASSERT_EQ(run({.args = {"trace", deck, "--ranks", "4", "--out", place.out()}}).status, 0);
  const Json groups = Json::parse(read_text(place.out() + "/tiny.groups.json"));
  EXPECT_EQ(groups.size(), 4U) << "two of shards and two of replicas";
  for (int rank = 0; rank < 4; ++rank) {
    std::size_t named = 0;
    for (const ChakraNode& node : trace_of(place.out(), "tiny", rank).nodes) {
      if (!node.texts.contains("pg_name")) continue;
      ++named;
      const Json& members = groups.at(node.texts.at("pg_name"));
      EXPECT_NE(std::find(members.begin(), members.end(), rank), members.end()) << node.name;
    }
    EXPECT_GT(named, 0U);
  }
}

TEST(ChakraTraces, HaveTheDurationsOfAMachineFile) {
  const Workplace place;
  const std::string machine = std::string(SHARDMARK_TEST_INPUTS) + "/machines/dgx-a100-80gb.json";
  const std::string deck = place.deck(3);
  ASSERT_EQ(
      run({.args = {"trace", deck, "--ranks", "2", "--machine", machine, "--out", place.out()}})
          .status,
      0);
  std::int64_t total = 0;
  for (const ChakraNode& node : trace_of(place.out(), "tiny", 1).nodes) {
    EXPECT_GE(node.duration_us, 1U) << node.name;
    total += node.numbers.at("duration_nanos");
  }
  EXPECT_GT(total, 0);
}

// Seconds of a step in which nodes wait for what their traces say, and collectives for the last
// rank.
double replayed_s(const std::vector<ChakraTrace>& ranks) {
  std::vector<std::vector<std::int64_t>> ends(ranks.size(), {0});  // by id, in ns
  std::vector<std::size_t> at(ranks.size(), 0);
  const auto ready = [&](std::size_t r) {
    std::int64_t ns = 0;
    for (const std::uint64_t before : ranks[r].nodes[at[r]].depends_on)
      ns = std::max(ns, ends[r][before]);
    return ns;
  };
  const auto finish = [&](std::size_t r, std::int64_t begin_ns) {
    ends[r].push_back(begin_ns + ranks[r].nodes[at[r]++].numbers.at("duration_nanos"));
  };
  for (;;) {
    std::int64_t all_ready = 0, last = 0;
    std::size_t waiting = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      while (at[r] < ranks[r].nodes.size() && !ranks[r].nodes[at[r]].collective())
        finish(r, ready(r));
      waiting += at[r] < ranks[r].nodes.size();
      if (waiting > r) all_ready = std::max(all_ready, ready(r));
      last = std::max(last, *std::max_element(ends[r].begin(), ends[r].end()));
    }
    if (waiting == 0) return double(last) * 1e-9;
    EXPECT_EQ(waiting, ranks.size()) << "a rank makes fewer calls";
    if (waiting != ranks.size()) return 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) finish(r, all_ready);
  }
}

TEST(ChakraTraces, TakeAsLongAsPredicted) {
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {1, 2, 3}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + ", ranks " + std::to_string(ranks));
      const std::string deck = "gpt-tiny-z" + std::to_string(stage);
      const Workplace place;
      const std::vector<std::string> where{"--ranks", std::to_string(ranks), "--machine",
                                           "dgx-a100-80gb"};
      std::vector<std::string> trace{"trace", deck, "--out", place.out()};
      trace.insert(trace.end(), where.begin(), where.end());
      ASSERT_EQ(run({.args = trace}).status, 0);
      std::vector<std::string> predict{"predict", deck, "--format", "json"};
      predict.insert(predict.end(), where.begin(), where.end());
      const Json predicted = Json::parse(run({.args = predict}).out).at("points").at(0);
      std::vector<ChakraTrace> traces;
      for (int r = 0; r < ranks; ++r) traces.push_back(trace_of(place.out(), deck, r));
      const double step_s = predicted.at("step_s");
      EXPECT_NEAR(replayed_s(traces), step_s, 2e-3 * step_s);
      std::int64_t communication_ns = 0;
      for (const ChakraNode& node : traces[0].nodes)
        if (node.collective()) communication_ns += node.numbers.at("duration_nanos");
      if (stage == 0) {
        EXPECT_NEAR(double(communication_ns) * 1e-9, predicted.at("exposed_s"), 1e-7)
            << "nothing overlaps";
      }
    }
}

TEST(ChakraTraces, OfARunHaveItsTimes) {
  for (const int ranks : {1, 2, 3, 4}) {
    const Workplace place;
    const std::string deck = place.deck(2, {{"trace", "run.et"}, {"run", {{"steps", 3}}}});
    const Outcome o = run({.args = place.run_args(), .ranks = ranks});
    ASSERT_EQ(o.status, 0) << o.err << o.out;
    EXPECT_NE(o.out.find("timed steps are traced"), std::string::npos);
    const Json plan = Json::parse(
        run({.args = {"plan", deck, "--ranks", std::to_string(ranks), "--format", "json"}}).out);
    for (int rank = 0; rank < ranks; ++rank) {
      const ChakraTrace trace = trace_of(place.out(), "run", rank);
      expect_sound(trace);
      expect_planned(trace, plan.at("volume").at("steady"), ranks);
      EXPECT_EQ(trace.texts.at("times"), "measured");
      std::uint64_t compute_end = 0;
      for (const ChakraNode& node : trace.nodes) {
        EXPECT_GE(node.duration_us, 1U) << node.name;
        if (node.collective() || node.numbers.at("is_cpu_op") != 0) continue;
        EXPECT_GE(node.start_us + 1, compute_end) << node.name << ": kernels do not overlap";
        compute_end = node.start_us + std::uint64_t(node.numbers.at("duration_nanos") / 1000);
      }
    }
  }
}

TEST(ChakraTraces, RefuseWhatCannotBeWritten) {
  const Workplace place;
  const std::string deck = place.deck(3);
  const Outcome no_ranks = run({.args = {"trace", deck}});
  EXPECT_EQ(no_ranks.status, 2);
  EXPECT_NE(no_ranks.err.find("--ranks"), std::string::npos) << no_ranks.err;
  EXPECT_EQ(run({.args = {"trace", deck, "--ranks", "2", "--format", "chrome"}}).status, 2);
  const std::string file = place.write("file", "");
  EXPECT_EQ(run({.args = {"trace", deck, "--ranks", "2", "--out", file}}).status, 4);
  const Outcome large = run({.args = {"trace", deck, "--ranks", "1", "--out", place.out(), "--set",
                                      "deepspeed.gradient_accumulation_steps=1000000"}});
  EXPECT_EQ(large.status, 2);
  EXPECT_NE(large.err.find("gradient_accumulation_steps"), std::string::npos) << large.err;
}

}  // namespace
}  // namespace shardmark::test::trace_command_test
