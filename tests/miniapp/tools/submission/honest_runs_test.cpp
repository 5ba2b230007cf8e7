// SPDX-License-Identifier: Apache-2.0
// An honest run is never refused: runs of all kinds, on 1 to 4 ranks, are verified as they are. One
// that was stopped is refused for that alone, and not for what it lacks in consequence.
#include <gtest/gtest.h>

#include <tests/miniapp/tools/submission/mended_archive.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::honest_runs_test {
namespace {

struct Kind {
  std::string name;
  int stage = 3;
  Json patch = Json::object();
  std::vector<std::string> more = {};
};

Json zero(const Json& section) {
  return {{"deepspeed", {{"zero_optimization", section}}}};
}

std::vector<Kind> kinds() {
  const Json cpu{{"device", "cpu"}};
  return {
      {"plain0", 0},
      {"plain1", 1},
      {"plain2", 2},
      {"plain3", 3},
      {"strict", 3, {{"run", {{"memory_mode", "strict"}}}}},
      {"paper", 3, {{"run", {{"schedule", "paper"}}}}},
      {"torch", 3, {{"run", {{"schedule", "torch"}}}}},
      {"ordered", 2, {{"run", {{"reductions", "ordered"}}}}},
      {"bf16", 2, {{"deepspeed", {{"bf16", {{"enabled", true}}}}}}},
      {"fp16", 3, {{"deepspeed", {{"fp16", {{"enabled", true}, {"initial_scale_power", 20}}}}}}},
      {"accumulation", 1, {{"deepspeed", {{"gradient_accumulation_steps", 3}}}}},
      {"offload", 3, zero({{"offload_optimizer", cpu}, {"offload_param", cpu}})},
      {"slow_link", 2,
       [] {
         Json patch = zero({{"offload_optimizer", {{"device", "cpu"}}}});
         patch["machine"] = {{"host_link_gbps", 0.1}};
         return patch;
       }()},
      {"checkpoints", 2, {{"checkpoint", {{"dir", "ckpt"}, {"every", 3}}}}},
      {"async", 3, {{"checkpoint", {{"dir", "ckpt"}, {"every", 3}, {"async", true}}}}},
      {"storage",
       3,
       {{"run", {{"compute", "none"}}}, {"checkpoint", {{"dir", "ckpt"}, {"benchmark", 2}}}}},
      {"no_compute", 3, {{"run", {{"compute", "none"}}}}},
      {"scheduler",
       1,
       {{"deepspeed",
         {{"scheduler", {{"type", "WarmupLR"}, {"params", {{"warmup_num_steps", 4}}}}}}}}},
      {"muon", 2, {{"deepspeed", {{"optimizer", {{"type", "Muon"}, {"params", {{"lr", 0.01}}}}}}}}},
      {"perturbed", 2, {{"perturb", {{"ranks", {0}}, {"factor", 1.5}, {"every", 2}}}}},
      {"logged", 3, {{"deepspeed", {{"comms_logger", {{"enabled", true}}}}}}},
      {"predicted",
       2,
       Json::object(),
       {"--machine", std::string(SHARDMARK_TEST_INPUTS) + "/machines/cpu-2-socket.json"}},
      {"one_step", 2, {{"run", {{"steps", 1}, {"warmup", 0}}}}},
  };
}

class HonestRuns : public ::testing::TestWithParam<std::tuple<Kind, int>> {};

TEST_P(HonestRuns, AreVerified) {
  const auto& [kind, ranks] = GetParam();
  const Workplace place;
  Json patch{{"run", {{"steps", 7}, {"warmup", 2}}}};
  patch.merge_patch(kind.patch);
  std::vector<std::string> args{"run", place.deck(kind.stage, patch), "--out", place.out()};
  args.insert(args.end(), kind.more.begin(), kind.more.end());
  const Outcome ran = run({.args = args, .ranks = ranks});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const Outcome o = run({.args = {"submit", place.out(), "--out", place.path("a.zip")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
}

INSTANTIATE_TEST_SUITE_P(Ranks, HonestRuns,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& of) {
                           return std::get<0>(of.param).name + "_on_" +
                                  std::to_string(std::get<1>(of.param));
                         });

// Verifies the run in the archive a.zip with a change, under checksums that fit.
template<class Change>
Outcome verify_forged(const Workplace& place, const Change& change) {
  ArchiveFiles files = read_archive(place.path("a.zip"));
  change_run(files, "runs/1", change);
  write_archive(place.path("forged.zip"), files);
  return run({.args = {"verify", place.path("forged.zip")}});
}

// The times of its collectives are those of a sample of its steps, whose number the report tells.
TEST(LongRuns, AreVerified) {
  const Workplace place;
  const std::string deck = place.deck(3, {{"run", {{"steps", 4000}, {"warmup", 2}}}});
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const auto sampled = place.report().at("sampled_steps").get<std::int64_t>();
  EXPECT_GT(sampled, 500);
  EXPECT_LT(sampled, 4000);
  EXPECT_NE(ran.out.find("those of " + std::to_string(sampled) + " of the 4000 timed steps"),
            std::string::npos)
      << ran.out;
  const Outcome o = run({.args = {"submit", place.out(), "--out", place.path("a.zip")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  const Outcome forged =
      verify_forged(place, [](Json& report, std::string&) { report["sampled_steps"] = 4001; });
  EXPECT_EQ(forged.status, 1) << forged.out << forged.err;
  EXPECT_NE(forged.out.find("sampled_steps"), std::string::npos) << forged.out;
}

// Learned routing decides how many rows the ranks exchange, within what the plan has room for.
TEST(RoutedRuns, AreVerifiedUnlessTheySendMoreThanThereIsRoomFor) {
  const Workplace place;
  const Json model{{"family", "decoder"},
                   {"kv_heads", 2},
                   {"ffn", 48},
                   {"moe", {{"experts", 4}, {"per_token", 2}, {"ffn", 24}}}};
  const Json experts{{"enabled", true}, {"autoep_size", 2}};
  const std::string deck = place.deck(
      2,
      {{"model", model}, {"deepspeed", {{"expert_parallel", experts}}}, {"run", {{"steps", 7}}}});
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const Outcome o = run({.args = {"submit", place.out(), "--out", place.path("a.zip")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;

  const Json::json_pointer exchange("/collectives/all_to_all expert");
  ASSERT_TRUE(place.report().at(exchange).contains("routed")) << "all ranks had as many rows";
  const Outcome forged = verify_forged(place, [&](Json& report, std::string&) {
    const std::int64_t more = std::int64_t{1} << 40;
    for (const char* figure : {"measured", "routed"}) {
      Json& of = report[exchange][figure];
      of["elems"] = of["elems"].get<std::int64_t>() + more;
      of["bytes"] = of["bytes"].get<std::int64_t>() + 4 * more;
    }
  });
  EXPECT_EQ(forged.status, 1) << forged.out << forged.err;
  EXPECT_NE(forged.out.find("what the plan has room for"), std::string::npos) << forged.out;
}

std::vector<std::string> refusals(const Outcome& o) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(o.out))
    if (line.starts_with("  refused: ")) found.push_back(line);
  return found;
}

TEST(StoppedRuns, AreRefusedForThatAlone) {
  const Workplace place;
  const std::string deck =
      place.deck(3, {{"run", {{"steps", 1000000}, {"warmup", 2}, {"time_limit_s", 2}}}});
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  ASSERT_EQ(ran.status, 6) << ran.out << ran.err;
  const auto submit = [&] {
    return run({.args = {"submit", place.out(), "--out", place.path("a.zip")}});
  };
  const Outcome o = submit();
  EXPECT_EQ(o.status, 1) << o.out << o.err;
  ASSERT_EQ(refusals(o).size(), 1U) << o.out;
  EXPECT_NE(refusals(o)[0].find("stopped by run.time_limit_s"), std::string::npos) << o.out;

  // A report that only says VALID is still that of a run that was stopped.
  Json report = place.report();
  report["result"] = "VALID";
  place.write("out/report.json", mended_report(report, place.losses()));
  ASSERT_EQ(refusals(submit()).size(), 1U) << submit().out;
}

}  // namespace
}  // namespace shardmark::test::honest_runs_test
