// SPDX-License-Identifier: Apache-2.0
// Logs in DeepSpeed's format: the summary of comms_logger and the lines of wall_clock_breakdown.
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include <miniapp/measure/deepspeed_comms_log.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/measure/timings.hpp>
#include <miniapp/report/deepspeed_wall_clock.hpp>
#include <tests/support/pattern.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::deepspeed_logs_test {
namespace {

constexpr std::int64_t ms = 1'000'000;

CollectiveRecord call(Op op, std::int64_t elems, std::int64_t issue_ns, std::int64_t done_ns) {
  CollectiveRecord r;
  r.op = op;
  r.elems = elems;
  r.issue_ns = issue_ns;
  r.done_ns = done_ns;
  return r;
}

// As Python prints them (facts/: convert_size of DeepSpeed's comms_logging.py).
TEST(CommsLog, PrintsMessageSizesAsDeepSpeedDoes) {
  const std::pair<std::int64_t, const char*> sizes[] = {
      {0, "0B"},           {1, "1.0 B"},          {1023, "1023.0 B"},
      {1024, "1.0 KB"},    {1536, "1.5 KB"},      {711825982, "678.85 MB"},
      {6291456, "6.0 MB"}, {5368709120, "5.0 GB"}};
  for (const auto& [bytes, text] : sizes) EXPECT_EQ(message_size(bytes), text);
}

TEST(CommsLog, CountsByOperationAndMessageSize) {
  // 4 ranks; the second call starts while the first still occupies the lane.
  const std::vector<CollectiveRecord> records{call(Op::all_gather, 4000, 0, 2 * ms),
                                              call(Op::all_gather, 4000, 1 * ms, 6 * ms),
                                              call(Op::reduce_scatter, 8000, 10 * ms, 12 * ms),
                                              call(Op::all_gather, 400, 20 * ms, 21 * ms),
                                              call(Op::all_reduce, 1000, 30 * ms, 34 * ms),
                                              call(Op::barrier, 0, 40 * ms, 41 * ms)};
  const auto log = comms_log(records, 4, {});
  ASSERT_EQ(log.size(), 4U);
  EXPECT_EQ(log[0].name, "all_gather_into_tensor");
  EXPECT_EQ(log[1].name, "reduce_scatter_tensor");
  EXPECT_EQ(log[2].name, "all_reduce");
  EXPECT_EQ(log[3].name, "barrier");
  ASSERT_EQ(log[0].rows.size(), 2U);
  EXPECT_EQ(log[0].rows[0].message_bytes, 400) << "a rank's shard; sizes ascend";
  const CommsLogRow& gathers = log[0].rows[1];
  EXPECT_EQ(gathers.message_bytes, 4000);
  EXPECT_EQ(gathers.count, 2);
  EXPECT_DOUBLE_EQ(gathers.total_ms, 2 + 4) << "each for as long as it had the lane";
  EXPECT_DOUBLE_EQ(gathers.average_ms, 3);
  EXPECT_EQ(log[1].rows[0].message_bytes, 32000) << "the whole array";
  EXPECT_EQ(log[3].rows[0].message_bytes, 0);
}

TEST(CommsLog, HasDeepSpeedsBandwidthsAndNcclTests) {
  const double bytes = 4e6, seconds = 2e-3;
  const auto row = [&](Op op, std::int64_t elems) {
    return comms_log({call(op, elems, 0, 2 * ms)}, 4, {}).at(0).rows.at(0);
  };
  const double gbps = bytes * 8 / seconds / 1e9, gb_s = bytes / seconds / 1e9;
  const CommsLogRow reduce = row(Op::all_reduce, 1000000);
  EXPECT_NEAR(reduce.tput_gbps, 2 * gbps, 1e-9);
  EXPECT_NEAR(reduce.busbw_gbps, 1.5 * gbps, 1e-9);
  EXPECT_NEAR(reduce.nccl_gb_s, 1.5 * gb_s, 1e-9);
  const CommsLogRow gather = row(Op::all_gather, 1000000);  // of 1e6-byte shards
  EXPECT_NEAR(gather.tput_gbps, gbps, 1e-9);
  EXPECT_NEAR(gather.busbw_gbps, 0.75 * gbps, 1e-9);
  EXPECT_NEAR(gather.nccl_gb_s, 0.75 * gb_s, 1e-9) << "the same, in bytes";
  const CommsLogRow scatter = row(Op::reduce_scatter, 1000000);
  EXPECT_NEAR(scatter.busbw_gbps, 4 * 0.75 * gbps, 1e-9) << "DeepSpeed counts its message n times";
  EXPECT_NEAR(scatter.nccl_gb_s, 0.75 * gb_s, 1e-9) << "which nccl-tests does not";
  EXPECT_NEAR(row(Op::broadcast, 1000000).busbw_gbps, gbps, 1e-9);
  const CommsLogRow exchange = row(Op::all_to_all, 1000000);
  EXPECT_NEAR(exchange.tput_gbps, gbps, 1e-9);
  EXPECT_NEAR(exchange.busbw_gbps, 0.75 * gbps, 1e-9);
  EXPECT_NEAR(exchange.nccl_gb_s, 0.75 * gb_s, 1e-9);
  EXPECT_EQ(deepspeed_name(Op::all_to_all), "all_to_all_single");
}

TEST(CommsLog, LeavesOutTheHighestAndLowestTenth) {
  std::vector<CollectiveRecord> records;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t span = i == 3 ? 1000 * ms : i == 5 ? 0 : 2 * ms;
    records.push_back(call(Op::all_reduce, 100, i * 2000 * ms, i * 2000 * ms + span));
  }
  const CommsLogRow row = comms_log(records, 2, {}).at(0).rows.at(0);
  EXPECT_EQ(row.count, 20);
  EXPECT_DOUBLE_EQ(row.total_ms, 1036);
  EXPECT_DOUBLE_EQ(row.average_ms, 2);
}

TEST(CommsLog, TakesTheOperationsThatAreAskedFor) {
  const std::vector<CollectiveRecord> records{call(Op::all_gather, 4, 0, 1),
                                              call(Op::all_reduce, 4, 1, 2)};
  DsLogSpec spec;
  spec.comms_all = false;
  EXPECT_TRUE(comms_log(records, 2, spec).empty());
  spec.comms_ops = {"all_gather_into_tensor"};
  ASSERT_EQ(comms_log(records, 2, spec).size(), 1U);
  EXPECT_EQ(comms_log(records, 2, spec)[0].name, "all_gather_into_tensor");
}

TEST(CommsLog, PrintsEachCallAsDeepSpeedDoes) {
  const std::vector<CollectiveRecord> records{call(Op::all_gather, 1572864, 0, 3 * ms),
                                              call(Op::all_reduce, 1572864, 3 * ms, 6 * ms)};
  DsLogSpec spec;
  spec.comms_all = false;
  spec.comms_ops = {"all_reduce"};
  EXPECT_EQ(comms_calls_text(records, 2, spec),
            "comm op: all_reduce | time (ms): 3.00 | msg size: 6.0 MB | algbw (Gbps): 33.55 | "
            "busbw (Gbps): 16.78\n");
  EXPECT_TRUE(comms_calls_text(records, 2, {})
                  .starts_with("comm op: all_gather_into_tensor | time (ms): 3.00 | msg size: 3.0 "
                               "MB | "));
}

TEST(CommsLog, IsDeepSpeedsTableWithOneColumnMore) {
  const std::string text =
      comms_log_text(comms_log({call(Op::all_reduce, 1572864, 0, 3 * ms)}, 2, {}));
  std::istringstream lines(text);
  std::string head, name, row, none;
  std::getline(lines, head), std::getline(lines, name), std::getline(lines, row);
  EXPECT_FALSE(std::getline(lines, none));
  EXPECT_TRUE(
      head.starts_with("Comm. Op            Message Size        Count               "
                       "Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     "
                       "busbw_avg (Gbps)    "));
  EXPECT_EQ(name, "all_reduce");
  EXPECT_EQ(row.substr(0, 120),
            "                    6.0 MB              1                   3.00                3.00"
            "                33.55               ");
}

// Each event of a step takes 1 ms.
StepTrace even_trace(const Program& p, bool skipped = false) {
  StepTrace trace;
  std::int64_t now = 0;
  const Step& step = p.steps[static_cast<std::size_t>(step_path(p, false).back())];
  for (const int segment : segments_of(step, skipped)) {
    const auto events =
        static_cast<int>(p.segments[static_cast<std::size_t>(segment)].events.size());
    for (int e = 0; e <= events; ++e) {
      if (events == 0) continue;
      trace.events.push_back({segment, e < events ? e : -1, now, now + ms, 0, {}});
      now += ms;
    }
  }
  return trace;
}

std::map<std::string, double> fields_of(const std::string& line) {
  const std::string field = R"( \| (\w+): ([0-9]+\.[0-9]{2})(?= |$))";
  std::map<std::string, double> fields;
  for (const Match& match : find_matches(line, field)) fields[match[1]] = std::stod(match[2]);
  return fields;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(WallClock, IsDeepSpeedsLinesAndAddsUp) {
  for (int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    Deck deck = gpt2_deck(stage);
    deck.run.schedule = Schedule::deepspeed;
    const Program p = program(deck, 2, 0, 3);
    const StepTrace trace = even_trace(p);
    const auto lines = lines_of(wall_clock_lines(p, trace));
    const std::size_t optimizer = stage > 0 ? 1 : 0;
    ASSERT_EQ(lines.size(), 3 + optimizer + 1);
    const std::string form = R"(\[Rank 0\] time \(ms\)( \| \w+: [0-9]+\.[0-9]{2})+)";
    for (const std::string& line : lines) EXPECT_TRUE(matches(line, form)) << line;
    const auto whole = fields_of(lines.back());
    ASSERT_EQ(whole.size(), 5U);
    EXPECT_DOUBLE_EQ(whole.at("fwd") + whole.at("bwd") + whole.at("step"),
                     static_cast<double>(trace.events.size()))
        << "all of the step, once";
    EXPECT_DOUBLE_EQ(whole.at("bwd"), whole.at("bwd_inner") + whole.at("bwd_allreduce"));
    std::map<std::string, double> sums;
    for (const std::string& line : lines)
      if (line.find("microstep") != std::string::npos)
        for (const auto& [name, time] : fields_of(line)) sums[name] += time;
    for (const char* part : {"fwd", "bwd", "bwd_inner", "bwd_allreduce", "step"})
      EXPECT_DOUBLE_EQ(sums.at(std::string(part) + "_microstep"), whole.at(part)) << part;
    // Stages 0 and 1 reduce once per step, after the last backward.
    const auto first = fields_of(lines[0]), last = fields_of(lines[lines.size() - 2]);
    EXPECT_EQ(first.at("step_microstep"), 0);
    if (stage < 2) {
      EXPECT_GT(last.at("bwd_allreduce_microstep"), first.at("bwd_allreduce_microstep"));
    }
    if (stage == 0) continue;
    const auto parts = fields_of(lines[lines.size() - 3]);
    EXPECT_GT(parts.at("optimizer_step"), 0);
    if (stage == 3) continue;
    EXPECT_DOUBLE_EQ(parts.at("optimizer_step") + parts.at("optimizer_allgather") +
                         parts.at("optimizer_gradients"),
                     whole.at("step"));
    EXPECT_GT(parts.at("optimizer_allgather"), 0);
  }
}

TEST(Lanes, AreHeldByOneCollectiveAtATime) {
  const std::vector<CollectiveRecord> records{
      call(Op::all_gather, 1, 0, 50), call(Op::all_gather, 1, 10, 50),
      call(Op::all_gather, 1, 20, 90), call(Op::all_reduce, 1, 100, 110)};
  EXPECT_EQ(lane_begins_ns(records), (std::vector<std::int64_t>{0, 50, 50, 100}));
  std::vector<CollectiveRecord> of_groups = records;
  of_groups[1].group = 1;  // a lane of its own, on which nothing came before
  EXPECT_EQ(lane_begins_ns(of_groups), (std::vector<std::int64_t>{0, 10, 50, 100}));
}

}  // namespace
}  // namespace shardmark::test::deepspeed_logs_test
