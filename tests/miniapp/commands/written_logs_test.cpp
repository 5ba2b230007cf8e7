// SPDX-License-Identifier: Apache-2.0
// The logs that a run writes besides its report: a trace for viewers, the summary of DeepSpeed's
// comms_logger, and its wall_clock_breakdown. They agree with the plan.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::written_logs_test {
namespace {

using Calls = std::map<std::string, std::int64_t>;

constexpr int lanes = 3, communication = 1;

Json plan(const Workplace& place, int ranks) {
  return Json::parse(run({.args = {"plan", place.path("deck.json"), "--format", "json", "--ranks",
                                   std::to_string(ranks)}})
                         .out);
}

void add_calls(const Json& step, Calls& calls) {
  for (const Json& row : step) ++calls[row.at("op")];
}

// The fields that a viewer requires of each event in the trace-event format.
void expect_schema(const Json& event, int ranks) {
  const std::string ph = event.at("ph");
  const int pid = event.at("pid");
  EXPECT_GE(pid, 0);
  EXPECT_LT(pid, ranks);
  EXPECT_TRUE(event.at("name").is_string());
  EXPECT_TRUE(event.at("tid").is_number_integer());
  EXPECT_TRUE(std::string("MXCi").find(ph) != std::string::npos) << event;
  if (ph == "M") return;
  EXPECT_GE(event.at("ts").get<double>(), 0) << event;
  if (ph != "X") return;
  EXPECT_GE(event.at("dur").get<double>(), 0) << event;
  const int tid = event.at("tid");
  EXPECT_TRUE(tid > lanes * pid && tid <= lanes * pid + lanes)
      << "a thread of two processes: " << event;
  EXPECT_TRUE(event.at("args").is_object());
}

struct Span {
  std::int64_t begin, end;  // ns, truncated as in Perfetto
  std::string name;
};

void expect_no_overlap(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (std::size_t i = 1; i < spans.size(); ++i)
    ASSERT_LE(spans[i - 1].end, spans[i].begin) << spans[i - 1].name << " and " << spans[i].name;
}

TEST(Trace, IsInTheFormatThatViewersRead) {
  for (int stage : {0, 2, 3}) {
    const int ranks = stage == 0 ? 1 : stage;
    SCOPED_TRACE(stage);
    const Workplace place;
    place.deck(stage, {{"trace", "trace.json"},
                       {"run", {{"steps", 5}, {"warmup", 2}}},
                       {"deepspeed", {{"gradient_accumulation_steps", 2}}}});
    const Outcome outcome = run({.args = place.run_args(), .ranks = ranks});
    ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    EXPECT_NE(outcome.out.find("timed steps are traced"), std::string::npos) << "unofficial";
    const Json trace = Json::parse(read_text(place.out() + "/trace.json"));
    std::map<std::pair<int, int>, std::vector<Span>> spans;
    std::map<int, Calls> calls;
    std::map<int, std::set<std::string>> named;
    for (const Json& event : trace.at("traceEvents")) {
      expect_schema(event, ranks);
      const int pid = event.at("pid"), tid = event.at("tid").get<int>() - 1 - lanes * pid;
      if (event.at("name") == "thread_name") named[pid].insert(event.at("args").at("name"));
      if (event.at("ph") != "X") continue;
      const auto begin = static_cast<std::int64_t>(event.at("ts").get<double>() * 1e3);
      const auto length = static_cast<std::int64_t>(event.at("dur").get<double>() * 1e3);
      spans[{pid, tid}].push_back({begin, begin + length, event.at("name")});
      const Json& args = event.at("args");
      if (tid == communication) {
        ++calls[pid][args.at("op")];
        for (const char* key : {"elems", "bytes", "dtype", "buffer", "queued_us"})
          EXPECT_TRUE(args.contains(key)) << event;
        EXPECT_GE(args.at("queued_us").get<double>(), 0);
      } else if (event.at("cat") == "kernel") {
        for (const char* key : {"op", "elems", "bytes", "dtype", "phase"})
          EXPECT_TRUE(args.contains(key)) << event;
        const std::string name = event.at("name");
        if (name.starts_with("forward block0.attn")) {
          EXPECT_GT(args.at("bytes").get<std::int64_t>(), 0) << event;
        }
      }
    }
    for (const auto& [lane, list] : spans) expect_no_overlap(list);
    Calls steps;  // of the first three timed steps, which are in the steady state after two of
                  // warm-up
    for (int i = 0; i < 3; ++i) add_calls(plan(place, ranks).at("steps").at("steady"), steps);
    ASSERT_EQ(calls.size(), static_cast<std::size_t>(ranks));
    for (const auto& [rank, made] : calls) EXPECT_EQ(made, steps) << "rank " << rank;
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(named[rank], (std::set<std::string>{"compute", "communication", "copies"}));
    for (const auto& [lane, list] :
         spans) {  // all ranks use one clock, so their events of a step are close
      if (lane.second != 0) continue;
      EXPECT_LT(list.front().begin, 1'000'000'000);
    }
  }
}

// Groups communicate at the same time, so each has a lane of its own, on which nothing overlaps.
TEST(Trace, HasALaneForEachGroup) {
  const Workplace place;
  place.deck(3, {{"trace", "t.json"}, {"run", {{"schedule", "paper"}, {"shard_size", 2}}}});
  const Outcome outcome = run({.args = place.run_args(), .ranks = 4});
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  const Json trace = Json::parse(read_text(place.out() + "/t.json"));
  std::map<int, std::string> names;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  EXPECT_EQ(names.size(), 4U * 5);
  std::map<int, std::vector<Span>> spans;
  std::map<std::string, int> seen;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "communication") continue;
    const std::string group = event.at("args").at("group");
    EXPECT_EQ(names.at(event.at("tid")), "communication, " + group) << event;
    ++seen[group];
    const auto begin = static_cast<std::int64_t>(event.at("ts").get<double>() * 1e3);
    const auto length = static_cast<std::int64_t>(event.at("dur").get<double>() * 1e3);
    spans[event.at("tid")].push_back({begin, begin + length, event.at("name")});
  }
  EXPECT_GT(seen["shard"], 0);
  EXPECT_GT(seen["replicas"], 0);
  for (const auto& [lane, list] : spans) expect_no_overlap(list);
}

TEST(Trace, SaysWhatACollectiveIsOf) {
  const Workplace place;
  place.deck(2, {{"trace", "t.json"}});
  ASSERT_EQ(run({.args = place.run_args(), .ranks = 2}).status, 0);
  std::set<std::string> params;
  const Json trace = Json::parse(read_text(place.out() + "/t.json"));
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("args").contains("params"))
      for (const std::string name : event.at("args").at("params")) params.insert(name);
  for (const char* name : {"wte", "block0.attn.qkv.weight", "block1.mlp.fc.bias"})
    EXPECT_TRUE(params.contains(name)) << name << " of " << params.size();
}

TEST(Trace, GoesToAFileOfItsOwnOnly) {
  for (const char* name :
       {"", "a/b.json", "../t.json", "/t.json", "report.json", ".t", "losses.csv"}) {
    const Workplace place;
    place.deck(2, {{"trace", name}});
    const Outcome outcome = run({.args = place.run_args(), .ranks = 1});
    EXPECT_EQ(outcome.status, 2) << name;
    EXPECT_NE(outcome.err.find("trace = "), std::string::npos) << outcome.err;
  }
  const Workplace place;
  place.deck(2, {{"trace", "t.json"}});
  std::filesystem::create_directories(place.out() + "/t.json");
  EXPECT_EQ(run({.args = place.run_args(), .ranks = 2}).status, 4) << "before it trains";
}

// The summary's rows: operation, message size, count.
std::map<std::pair<std::string, std::string>, std::int64_t> summary_of(const std::string& out) {
  const std::string row =
      R"( {20}(0B|[0-9.]+ [KMG]?B) +([0-9]+) +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+)";
  std::map<std::pair<std::string, std::string>, std::int64_t> rows;
  std::string op;
  bool inside = false;
  for (const std::string& line : lines_of(out)) {
    if (line.starts_with("Comm. Op")) inside = true;
    if (line.empty()) inside = false;
    if (!inside || line.starts_with("Comm. Op")) continue;
    if (const Match match = match_whole(line, row); !match.empty())
      rows[{op, match[1]}] += std::stoll(match[2]);
    else
      op = line;
  }
  return rows;
}

std::int64_t bytes_of(const std::string& dtype) {
  return dtype == "int64" || dtype == "fp64" ? 8 : dtype == "uint8" ? 1 : dtype == "fp32" ? 4 : 2;
}

TEST(CommsLogger, CountsThePlansCalls) {
  for (int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const Workplace place;
    place.deck(stage, {{"run", {{"steps", 4}, {"warmup", 1}}},
                       {"deepspeed", {{"comms_logger", {{"enabled", true}}}}}});
    const int ranks = 2;
    const Outcome outcome = run({.args = place.run_args(), .ranks = ranks});
    ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    const Json p = plan(place, ranks);
    std::map<std::string, std::map<std::int64_t, std::int64_t>> planned;
    const auto add = [&](const Json& step) {
      for (const Json& row : step) {
        const std::string op = row.at("op");
        const std::string name = op == "all_gather"       ? "all_gather_into_tensor"
                                 : op == "reduce_scatter" ? "reduce_scatter_tensor"
                                                          : op;
        const std::string dtype = row.value("dtype", std::string("uint8"));
        ++planned[name][row.at("elems_in").get<std::int64_t>() * bytes_of(dtype)];
      }
    };
    add(p.at("init"));
    add(p.at("steps").at("0"));
    add(p.at("steps").at("1"));
    for (int i = 0; i < 3; ++i) add(p.at("steps").at("steady"));
    const Json logged = place.report().at("comms_logger");
    EXPECT_EQ(logged.size(), planned.size()) << logged;
    const auto printed = summary_of(outcome.out);
    std::map<std::pair<std::string, std::string>, std::int64_t> expected;
    for (const auto& [op, sizes] : planned) {
      EXPECT_EQ(logged.at(op).size(), sizes.size()) << op;
      for (const auto& [bytes, count] : sizes) {
        ASSERT_TRUE(logged.at(op).contains(std::to_string(bytes))) << op << " of " << bytes;
        const Json& row = logged.at(op).at(std::to_string(bytes));
        EXPECT_EQ(row.at("count"), count) << op << " of " << bytes;
        expected[{op, row.at("msg_size_str")}] += count;
      }
    }
    EXPECT_EQ(printed, expected);
  }
}

TEST(CommsLogger, HasALineACallWhereItIsVerbose) {
  const Workplace place;
  place.deck(2, {{"deepspeed", {{"comms_logger", {{"enabled", true}, {"verbose", true}}}}}});
  const Outcome outcome = run({.args = place.run_args(), .ranks = 2});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::int64_t lines = 0, counted = 0;
  for (const std::string& line : lines_of(outcome.out)) lines += line.starts_with("comm op: ");
  for (const auto& [of, count] : summary_of(outcome.out)) counted += count;
  EXPECT_GT(lines, 0);
  EXPECT_EQ(lines, counted);
}

TEST(CommsLogger, IsSilentUnlessEnabled) {
  const Workplace place;
  place.deck(2, {{"deepspeed", {{"comms_logger", {{"enabled", false}}}}}});
  const Outcome outcome = run({.args = place.run_args(), .ranks = 1});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out.find("Comm. Op"), std::string::npos);
  EXPECT_FALSE(place.report().contains("comms_logger"));
}

TEST(WallClock, IsPrintedEverySoManySteps) {
  const Workplace place;
  place.deck(2, {{"run", {{"steps", 6}, {"warmup", 1}}},
                 {"deepspeed",
                  {{"wall_clock_breakdown", true},
                   {"steps_per_print", 3},
                   {"gradient_accumulation_steps", 2}}}});
  const Outcome outcome = run({.args = place.run_args(), .ranks = 2});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string number = "[0-9]+\\.[0-9]{2}";
  const std::string micro =
      "\\[Rank 0\\] time \\(ms\\) \\| fwd_microstep: " + number + " \\| bwd_microstep: " + number +
      " \\| bwd_inner_microstep: " + number + " \\| bwd_allreduce_microstep: " + number +
      " \\| step_microstep: " + number;
  const std::string whole = "\\[Rank 0\\] time \\(ms\\) \\| fwd: " + number +
                            " \\| bwd: " + number + " \\| bwd_inner: " + number +
                            " \\| bwd_allreduce: " + number + " \\| step: " + number;
  std::map<std::string, int> seen;
  for (const std::string& line : lines_of(outcome.out)) {
    if (matches(line, micro)) ++seen["micro"];
    if (matches(line, whole)) ++seen["whole"];
    if (line.find("optimizer_allgather") != std::string::npos) ++seen["optimizer"];
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"micro", 4}, {"optimizer", 2}, {"whole", 2}}))
      << "steps 3 and 6 of 7\n"
      << outcome.out;
  const Workplace bad;
  bad.deck(2, {{"deepspeed", {{"wall_clock_breakdown", true}, {"steps_per_print", 0}}}});
  const Outcome refused = run({.args = bad.run_args(), .ranks = 1});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("steps_per_print"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace shardmark::test::written_logs_test
