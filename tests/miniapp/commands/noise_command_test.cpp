// SPDX-License-Identifier: Apache-2.0
// `noise` describes all ranks, its sums agree, its result becomes a part of a machine file that can
// be read, and bad input ends in one line with the right status. No time is checked.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::noise_command_test {
namespace {

Outcome noise(int ranks, std::vector<std::string> more) {
  std::vector<std::string> args{"noise", "--seconds", "1", "--quantum-us", "500"};
  args.insert(args.end(), more.begin(), more.end());
  return run({.args = args, .ranks = ranks});
}

double number(const Json& j, const std::string& key) {
  return j.at(key).get<double>();
}

class Noise : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Noise, ::testing::Values(1, 2, 3, 4));

TEST_P(Noise, DescribesAllRanks) {
  const int ranks = GetParam();
  const Outcome outcome = noise(ranks, {"--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Json j = Json::parse(outcome.out);
  EXPECT_EQ(j.at("quantum_us"), 500);
  EXPECT_GE(number(j, "iterations"), 1);
  ASSERT_EQ(j.at("ranks").size(), static_cast<std::size_t>(ranks));
  double quanta = 0, lost = 0, detours = 0;
  for (const Json& r : j.at("ranks")) {
    EXPECT_EQ(r.at("host"), j.at("hosts").at(0).at("host"));
    EXPECT_GE(number(r, "quanta"), 100);
    EXPECT_GE(number(r, "quanta"), number(r, "detours"));
    EXPECT_GT(number(r, "fastest_us"), 0);
    const Json& d = r.at("delay_us");
    EXPECT_LE(number(d, "p50"), number(d, "p90"));
    EXPECT_LE(number(d, "p90"), number(d, "p99"));
    EXPECT_LE(number(d, "p99"), number(d, "p99.9"));
    EXPECT_LE(number(d, "p99.9"), number(d, "max"));
    EXPECT_LE(number(r, "lost_part"), 1);
    EXPECT_TRUE(r.at("periods").is_array());
    quanta += number(r, "quanta"), lost += number(r, "lost_s"), detours += number(r, "detours");
  }
  for (const Json& sum : {j.at("all"), j.at("hosts").at(0)}) {
    EXPECT_EQ(sum.at("ranks"), ranks);
    EXPECT_EQ(number(sum, "quanta"), quanta);
    EXPECT_EQ(number(sum, "detours"), detours);
    EXPECT_NEAR(number(sum, "lost_s"), lost, 1e-9);
  }
  // Ranks that seldom have a core in this second show no difference, which is 0 too.
  EXPECT_GE(number(j, "rank_relative_sd"), 0);
  if (ranks == 1) {
    EXPECT_EQ(number(j, "rank_relative_sd"), 0);
  }
  EXPECT_GE(number(j.at("synchronized"), "rounds"), 100);
  EXPECT_GE(number(j.at("synchronized").at("round_us"), "measured"),
            number(j.at("synchronized").at("slowest_us"), "measured") * 0.999 / ranks);
  ASSERT_EQ(j.at("at_scale").size(), 3u);
  double before = 0;
  for (const Json& s : j.at("at_scale")) {
    EXPECT_GE(number(s, "delay_us"), before);
    EXPECT_LE(number(s, "delay_us"), number(j.at("all").at("delay_us"), "max") * (1 + 1e-9));
    EXPECT_GT(number(s, "beyond_seen"), 0);
    EXPECT_LT(number(s, "beyond_seen"), 1);
    before = number(s, "delay_us");
  }
}

TEST_P(Noise, RefusesBadInputOnce) {
  const Workplace place;
  const auto refuses = [&](const std::vector<std::string>& args, int status,
                           const std::string& what) {
    std::vector<std::string> all{"noise"};
    all.insert(all.end(), args.begin(), args.end());
    const Outcome outcome = run({.args = all, .ranks = GetParam()});
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const std::size_t at = outcome.err.find(what);
    ASSERT_NE(at, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find(what, at + 1), std::string::npos) << outcome.err;
  };
  refuses({"--seconds", "0"}, 2, "--seconds");
  refuses({"--seconds", "1", "--quantum-us", "100000"}, 2, "at most 5000");
  refuses({"--seconds", "3600", "--quantum-us", "10"}, 2, "at least 450");
  refuses({"--machine", place.path("none.json")}, 2, "none.json");
  refuses({"--machine", place.write("bad.json", "{\"machine_file\": 1}")}, 2, "bad.json: name");
  refuses({"--seconds", "1", "--out", place.write("file", "") + "/folder"}, 4, "noise.json");
}

TEST(NoiseFiles, AreWritten) {
  const Workplace place;
  const std::string file = place.write("machine.json", R"({"machine_file": 1, "name": "small",
                  "device": {"peak_tflops": {"fp32": 1}, "memory_gb_per_s": 100},
                  "jitter": {"step_relative_sd": 0.01, "noise": {"quanta": 7}}})");
  const Outcome outcome = noise(2, {"--machine", file, "--out", place.out()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("rank 1"), std::string::npos);
  EXPECT_NE(outcome.out.find("jitter.noise"), std::string::npos);
  const Json j = Json::parse(read_text(place.out() + "/noise.json"));
  const std::string page = read_text(place.out() + "/noise.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("Delays by host"), std::string::npos);
  // Its figures are tables, which narrow screens show as lists, and no lines of fixed width.
  EXPECT_EQ(page.find("<pre"), std::string::npos);
  EXPECT_NE(page.find(" data-label=\"p99.9: \""), std::string::npos) << "of each rank";

  const Json jitter = Json::parse(read_text(file)).at("jitter");
  EXPECT_EQ(jitter.at("step_relative_sd"), 0.01);
  EXPECT_NEAR(jitter.value("rank_relative_sd", 0.0), std::min(1.0, number(j, "rank_relative_sd")),
              1e-5)
      << "1 is the most that a machine file takes";
  const Json& m = jitter.at("noise");
  EXPECT_EQ(m.at("quanta"), j.at("all").at("quanta"));
  EXPECT_NEAR(number(m, "lost_part"), number(j.at("all"), "lost_part"), 1e-5);
  EXPECT_EQ(m.at("ranks_us").size(), 3u);
  EXPECT_EQ(m.at("ranks_us").at(2).at(0), 16384);

  const Outcome check = run({.args = {"machine", "check", file}});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_EQ(check.out.find("jitter: missing"), std::string::npos);
  // A second measurement replaces the first.
  ASSERT_EQ(noise(1, {"--machine", file}).status, 0);
  EXPECT_TRUE(Json::parse(read_text(file)).at("jitter").at("noise").at("quanta").is_number());
}

TEST(NoiseFiles, SayWhatIsWrongInAMachineFile) {
  const Workplace place;
  const std::string file = place.write("machine.json", R"({"machine_file": 1, "name": "small",
                  "device": {"peak_tflops": {"fp32": 1}},
                  "jitter": {"noise": {"lost_part": 2}}})");
  const Outcome check = run({.args = {"machine", "check", file}});
  EXPECT_EQ(check.status, 2);
  EXPECT_NE(check.err.find("jitter.noise.lost_part = 2"), std::string::npos) << check.err;
}

}  // namespace
}  // namespace shardmark::test::noise_command_test
