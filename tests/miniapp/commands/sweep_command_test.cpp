// SPDX-License-Identifier: Apache-2.0
// `shardmark sweep` for users: its figures are those of `plan` and `run`, it continues where it was
// stopped, and a refused point is a row.
#include <filesystem>
#include <map>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <tests/support/markup.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::sweep_command_test {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using Row = std::map<std::string, std::string>;

constexpr const char* bucket = "deepspeed.zero_optimization.reduce_bucket_size";
constexpr const char* stage = "deepspeed.zero_optimization.stage";

// In these tests only the reason contains commas or quotes; it is the last of the first columns.
std::vector<Row> rows_of(const Workplace& place) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (const std::string& line : lines_of(read_text(place.out() + "/sweep.csv"))) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted)
        cells.emplace_back();
      else
        cells.back() += c;
    }
    if (names.empty()) {
      names = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
  }
  return rows;
}

Outcome sweep(const Workplace& place, const Args& more, int ranks = 0) {
  Args args{"sweep", place.path("deck.json"), "--out", place.out()};
  args.insert(args.end(), more.begin(), more.end());
  return run({.args = args, .ranks = ranks, .limit_s = 120});
}

std::string vary(const char* key, const std::string& values) {
  return std::string(key) + "=" + values;
}

Json plan(const Workplace& place, const Args& more) {
  Args args{"plan", place.path("deck.json"), "--format", "json"};
  args.insert(args.end(), more.begin(), more.end());
  const Outcome outcome = run({.args = args});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

TEST(Sweep, PlansWhatPlanPlans) {
  const Workplace place;
  place.deck(2);
  const Outcome outcome =
      sweep(place, {"--plan", "--ranks", "1,4", "--vary", vary(stage, "0,1,2,3"), "--vary",
                    vary(bucket, "5e3,2e4"), "--set", "memory.device_gib=0.0005"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto rows = rows_of(place);
  ASSERT_EQ(rows.size(), 16U);
  for (const Row& row : rows) {
    const Json p =
        plan(place, {"--ranks", row.at("ranks"), "--set", vary(stage, row.at(stage)), "--set",
                     vary(bucket, row.at(bucket)), "--set", "memory.device_gib=0.0005"});
    std::int64_t calls = 0, bytes = 0;
    for (const auto& [op, t] : p.at("volume").at("steady").items()) {
      calls += t.at("calls").get<std::int64_t>();
      bytes += t.at("bytes").get<std::int64_t>();
      EXPECT_EQ(row.at("step_calls_" + op), t.at("calls").dump());
    }
    EXPECT_EQ(row.at("step_calls"), std::to_string(calls));
    EXPECT_EQ(row.at("step_bytes"), std::to_string(bytes));
    EXPECT_EQ(row.at("result"), "planned");
    EXPECT_EQ(row.at("device_allocated_bytes"), p.at("memory").at("device").at("arena").dump());
    EXPECT_EQ(row.at("device_fits"), p.at("memory").at("device").at("fits") ? "yes" : "no");
    EXPECT_EQ(row.at("tokens_per_s"), "");
  }
  EXPECT_EQ(malformed(read_text(place.out() + "/sweep.html")), "");
}

TEST(Sweep, RunsEachPointAsRunWould) {
  const Workplace place;
  place.deck(2);
  const Outcome outcome = sweep(place, {"--vary", vary(bucket, "5e3,2e4")}, 2);
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_NE(outcome.out.find("2 points: 2 VALID"), std::string::npos) << outcome.out;
  for (const Row& row : rows_of(place)) {
    const Json report =
        Json::parse(read_text(place.out() + "/" + row.at("folder") + "/report.json"));
    EXPECT_EQ(report.at("result"), row.at("result"));
    EXPECT_EQ(report.at("fom").at("value").get<double>(), std::stod(row.at("tokens_per_s")));
    const Json& slowest = report.at("slowest_rank");
    EXPECT_EQ(slowest.at("rank").dump(), row.at("slowest_rank"));
    EXPECT_EQ(slowest.at("seconds_per_step").at("exposed_communication").get<double>(),
              std::stod(row.at("exposed_s")));
    EXPECT_EQ(report.at("memory").at("device").at("measured_peak").dump(),
              row.at("device_measured_bytes"));
    EXPECT_EQ(row.at("run_calls"), row.at("run_predicted_calls"));
    const std::string value =
        report.at("deck").at("deepspeed").at("zero_optimization").at("reduce_bucket_size").dump();
    EXPECT_EQ(std::stod(value), std::stod(row.at(bucket)));
    // The same point in a process group of its own gives the same bits.
    const Workplace alone;
    alone.deck(2);
    ASSERT_EQ(
        run({.args = alone.run_args({"--set", vary(bucket, row.at(bucket))}), .ranks = 2}).status,
        0);
    EXPECT_EQ(alone.report().at("state_hash"), report.at("state_hash"));
  }
}

TEST(Sweep, ContinuesWhereItWasStopped) {
  const Workplace place;
  place.deck(1);
  const Args args{"--vary", vary(bucket, "5e3,2e4,9e4")};
  {
    Args all{"sweep", place.path("deck.json"), "--out", place.out()};
    all.insert(all.end(), args.begin(), args.end());
    Program stopped({.args = all, .ranks = 2, .limit_s = 60});
    ASSERT_TRUE(stopped.wait_for_output("[1/3]", 60));
  }  // killed here
  const auto finished = [&] {
    std::map<std::string, fs::file_time_type> files;
    for (const auto& entry : fs::recursive_directory_iterator(place.out()))
      if (entry.path().filename() == "point.json") files[entry.path()] = entry.last_write_time();
    return files;
  };
  const auto before = finished();
  ASSERT_GE(before.size(), 1U);
  const Outcome outcome = sweep(place, args, 2);
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  const auto after = finished();
  EXPECT_EQ(after.size(), 3U);
  for (const auto& [file, time] : before) EXPECT_EQ(after.at(file), time) << "done again: " << file;
  EXPECT_NE(outcome.out.find("done before: kept"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("[1/3]"), std::string::npos) << outcome.out;
  EXPECT_EQ(rows_of(place).size(), 3U);

  // Other values and other rank counts join the table. Another deck does not.
  const Outcome more = sweep(place, {"--vary", vary(bucket, "5e3,7e3")}, 1);
  ASSERT_EQ(more.status, 0) << more.err;
  std::map<std::string, int> of_ranks;
  for (const Row& row : rows_of(place)) ++of_ranks[row.at("ranks")];
  EXPECT_EQ(of_ranks, (std::map<std::string, int>{{"1", 2}, {"2", 1}}));
  place.deck(1, {{"run", {{"steps", 4}}}});
  const Outcome other = sweep(place, {"--vary", vary(bucket, "5e3")}, 1);
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.out.find("of another deck"), std::string::npos) << other.out;
  EXPECT_NE(other.out.find("[1/1]"), std::string::npos) << "it was done again";
}

// Two sweeps would write one table. The lock belongs to a process, so the sweep that was killed
// above left none.
TEST(Sweep, IsAloneInItsFolder) {
  const Workplace place;
  place.deck(2);
  fs::create_directory(place.out());
  const std::string path = place.write("out/.lock", "process 7 on here\n");
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  const Args planned{"--plan", "--ranks", "2", "--vary", vary(bucket, "5e3")};
  for (const int ranks : {0, 2}) {
    const Outcome refused =
        sweep(place, ranks == 0 ? planned : Args{"--vary", vary(bucket, "5e3")}, ranks);
    EXPECT_EQ(refused.status, 4) << refused.err;
    ASSERT_EQ(lines_of(refused.err).size(), 1U) << refused.err;
    for (const char* part : {"/out: another sweep writes here (process 7 on here)", "--out"})
      EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
    EXPECT_FALSE(fs::exists(place.out() + "/sweep.csv"));
  }
  ASSERT_EQ(::close(other), 0);
  EXPECT_EQ(sweep(place, planned).status, 0);
}

TEST(Sweep, HasARowForARefusedPoint) {
  const Workplace place;
  place.deck(2);
  const Outcome outcome =
      sweep(place, {"--vary", vary(stage, "2,7"), "--vary", "memory.device_gib=1,0.0001"}, 2);
  EXPECT_EQ(outcome.status, 3) << "of the first point that did not end well: " << outcome.out;
  const auto rows = rows_of(place);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at("result"), "VALID");
  EXPECT_EQ(rows[1].at("result"), "refused");
  EXPECT_EQ(rows[1].at("status"), "3");
  EXPECT_NE(rows[1].at("reason").find("device"), std::string::npos) << rows[1].at("reason");
  EXPECT_EQ(rows[2].at("status"), "2");
  EXPECT_NE(rows[2].at("reason").find("must be 0, 1, 2 or 3"), std::string::npos);
  EXPECT_EQ(rows[3].at("result"), "refused");
  EXPECT_EQ(outcome.err, "") << "a row says it";
  // The status is that of the points, even if all were done before.
  EXPECT_EQ(sweep(place, {"--vary", vary(stage, "2,7"), "--vary", "memory.device_gib=1,0.0001"}, 2)
                .status,
            3);
}

TEST(Sweep, ContinuesAfterAnInvalidPoint) {
  const Workplace place;
  place.deck(2);
  const Outcome outcome =
      sweep(place, {"--vary", "expect.loss=-5,5.5", "--set", "expect.tolerance=1"}, 1);
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  const auto rows = rows_of(place);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("result"), "INVALID");
  EXPECT_NE(rows[0].at("reason").find("expect.loss"), std::string::npos);
  EXPECT_EQ(rows[1].at("result"), "VALID");
}

TEST(Sweep, NamesADeckByItsWholeName) {
  const Workplace place;
  const Outcome o = run({.args = {"sweep", "gpt2-1.5b", "--plan", "--ranks", "8", "--vary",
                                  vary(stage, "3"), "--out", place.out()},
                         .limit_s = 60});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(read_text(place.out() + "/sweep.html").find("<h1>Sweep of gpt2-1.5b</h1>"),
            std::string::npos);
}

TEST(Sweep, RefusesBadArguments) {
  const Workplace place;
  place.deck(2, {{"checkpoint", {{"dir", "ckpt"}, {"resume", "latest"}}}});
  const std::pair<Args, const char*> bad[] = {
      {{"--plan", "--vary", "run.steps=1,2"}, "--ranks"},
      {{"--ranks", "2", "--vary", "run.steps=1,2"}, "--plan"},
      {{"--plan", "--ranks", "2"}, "--vary"},
      {{"--plan", "--ranks", "2", "--vary", "run.steps"}, "key.path=value"},
      {{"--plan", "--ranks", "2", "--vary", "run.steps=1", "--set", "x"}, "--set"}};
  for (const auto& [args, says] : bad) {
    const Outcome outcome = sweep(place, args);
    EXPECT_EQ(outcome.status, 2) << says;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(place.out() + "/sweep.csv")) << says;
  }
  const Outcome resuming = sweep(place, {"--vary", vary(bucket, "5e3")}, 1);
  EXPECT_EQ(resuming.status, 2);
  EXPECT_NE(rows_of(place).at(0).at("reason").find("checkpoint.resume"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::sweep_command_test
