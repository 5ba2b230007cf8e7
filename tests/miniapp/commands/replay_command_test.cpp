// SPDX-License-Identifier: Apache-2.0
// Rule: a rank keeps what its replay cannot do without and nothing else, says how much that is, and
// the replay sees a wrong update in any case.
#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::replay_command_test {
namespace {

struct Case {
  std::string name;
  int stage;
  Json deepspeed;  // merged into the deck's section
  // Bytes that rank 0 of 2 keeps: per parameter of the model, in halves, since some states are cut
  // in two.
  std::int64_t half_bytes;
  std::vector<std::string> sets = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

Json optimizer(const char* type, const Json& params = Json::object()) {
  return {{"optimizer", {{"type", type}, {"params", params}}},
          {"zero_allow_untested_optimizer", true}};
}
const Json bf16{{"bf16", {{"enabled", true}}}};
const Json fp16{{"fp16", {{"enabled", true}}}};
const Json overflowing{{"fp16", {{"enabled", true}, {"initial_scale_power", 32}}}};
Json offloaded() {
  return {{"zero_optimization", {{"offload_optimizer", {{"device", "cpu"}}}}}};
}

// fp32 parameters are masters, or their copies; those of other ranks are kept beside the masters.
const Case cases[] = {
    {"stage0", 0, Json::object(), 8},
    {"stage1", 1, Json::object(), 8},
    {"stage2", 2, Json::object(), 8},
    {"stage3", 3, Json::object(), 4},
    {"stage3_adam", 3, optimizer("Adam", {{"weight_decay", 0.1}, {"adam_w_mode", false}}), 4},
    {"stage3_paper", 3, Json::object(), 4, {"run.schedule=paper"}},
    {"stage3_torch", 3, Json::object(), 4, {"run.schedule=torch"}},
    {"stage1_offloaded", 1, offloaded(), 8},
    {"stage3_offloaded", 3, offloaded(), 4},
    {"stage0_bf16", 0, bf16, 8},
    {"stage2_bf16", 2, bf16, 6},
    {"stage3_bf16", 3, bf16, 4},
    {"stage3_fp16", 3, fp16, 4},
    // Equal bits are promised, or the update takes the gradient itself: moments are kept.
    {"stage3_ordered", 3, Json::object(), 12, {"run.reductions=ordered"}},
    {"stage3_lion", 3, optimizer("Lion"), 8},
    {"stage3_sgd", 3, optimizer("SGD", {{"lr", 1e-2}}), 4},
    {"stage3_momentum", 3, optimizer("SGD", {{"lr", 1e-2}, {"momentum", 0.9}}), 8},
    {"stage3_adagrad", 3, optimizer("Adagrad"), 8}};

std::vector<std::string> args_of(const Case& c, const Workplace& place) {
  place.deck(c.stage, {{"deepspeed", c.deepspeed}});
  std::vector<std::string> args = place.run_args();
  for (const std::string& set : c.sets) args.insert(args.end(), {"--set", set});
  return args;
}

Json check_of(const Json& report) {
  for (const Json& check : report.at("checks"))
    if (check.at("name") == "replay") return check;
  return {};
}

class Replays : public ::testing::TestWithParam<Case> {};

TEST_P(Replays, KeepWhatTheyNeed) {
  const Case& c = GetParam();
  const Workplace place;
  const Outcome ran = run({.args = args_of(c, place), .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  const Json report = place.report();
  EXPECT_EQ(check_of(report).at("state"), "pass") << check_of(report);
  EXPECT_EQ(report.at("memory").at("system").at("replay_copy").get<std::int64_t>() * 2,
            report.at("parameters").get<std::int64_t>() * c.half_bytes);
}

TEST_P(Replays, SeeAWrongUpdate) {
  const Case& c = GetParam();
  const Workplace place;
  const Outcome ran = run({.args = args_of(c, place),
                           .ranks = 2,
                           .environment = {{"SHARDMARK_FAULT", "wrong_update:1"}}});
  ASSERT_EQ(ran.status, 1) << ran.err << ran.out;
  const Json check = check_of(place.report());
  EXPECT_EQ(check.at("state"), "fail") << check;
}

INSTANTIATE_TEST_SUITE_P(Of, Replays, ::testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

// What other ranks updated did not arrive, in the step itself: the next one would hide it.
TEST(ReplayOfGathers, SeesAShardThatDidNotArrive) {
  const Workplace place;
  place.deck(1);
  const Outcome ran = run({.args = place.run_args({"--set", "run.warmup=1"}),
                           .ranks = 2,
                           .environment = {{"SHARDMARK_FAULT", "stale_shard"}}});
  ASSERT_EQ(ran.status, 1) << ran.err << ran.out;
  const Json check = check_of(place.report());
  EXPECT_NE(check.at("detail").get<std::string>().find("after the update, param of rank 1"),
            std::string::npos)
      << check;
}

// A step whose gradients overflow changes nothing, and its replay is skipped as well.
TEST(ReplayOfSkippedSteps, FindsNothingChanged) {
  const Workplace place;
  place.deck(3, {{"deepspeed", overflowing}});
  const Outcome ran = run({.args = place.run_args(), .ranks = 2});
  ASSERT_EQ(ran.status, 1) << ran.err << ran.out;
  const Json check = check_of(place.report());
  EXPECT_EQ(check.at("state"), "pass") << check;
}

}  // namespace
}  // namespace shardmark::test::replay_command_test
