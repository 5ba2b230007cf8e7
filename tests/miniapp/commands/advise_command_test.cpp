// SPDX-License-Identifier: Apache-2.0
// `advise` and `compare` answer from files: their JSON has the keys on which scripts rely, the
// advice is the fastest candidate that fits, and bad input ends in one line with the right status.
#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::advise_command_test {
namespace {

Json answer(const std::vector<std::string>& args) {
  const Outcome outcome = run({.args = args, .limit_s = 60});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return Json::parse(outcome.out);
}

// A node of two devices with little memory, and a network.
std::string machine(const Workplace& place, const std::string& memory_gib, bool network = true) {
  return place.write(
      "machine" + memory_gib + (network ? "n" : "") + ".json",
      R"({"machine_file": 1, "name": "small", "node": {"ranks": 2, "host_memory_gib": 8},
               "device": {"memory_gib": )" +
          memory_gib +
          R"(, "peak_tflops": {"fp32": 1, "bf16": 2}, "memory_gb_per_s": 100, "launch_us": 1},
               "host_link": {"to_device": {"gb_per_s": 10}, "to_host": {"gb_per_s": 10}},
               "network": [{"name": "bus", "link": {"latency_us": 1, "gb_per_s": 20}})" +
          (network ? R"(, {"name": "net", "between_nodes": true,
                   "link": {"latency_us": 5, "gb_per_s": 1}, "node_gb_per_s": 2})"
                   : "") +
          "]}");
}

TEST(Advise, GivesTheFastestCandidateThatFits) {
  const Workplace place;
  const Json advice = answer({"advise", place.deck(0), "--machine", machine(place, "1"), "--ranks",
                              "4", "--batch", "8", "--format", "json"});
  ASSERT_FALSE(advice.at("candidates").empty());
  double fastest = 0;
  for (const Json& c : advice.at("candidates")) {
    EXPECT_TRUE(c.at("fits"));
    EXPECT_GT(c.at("step_s").get<double>(), 0);
    EXPECT_LT(c.at("device_bytes").get<double>(), 1.0 * (1 << 30));
    EXPECT_FALSE(c.at("limited_by").get<std::string>().empty());
    fastest = std::max(fastest, c.at("tokens_per_s").get<double>());
  }
  EXPECT_GE(advice.at("best").at("tokens_per_s").get<double>(), 0.9994 * fastest);
  EXPECT_TRUE(advice.at("best").at("deck_changes").is_object());
  EXPECT_TRUE(advice.at("refused").is_array());
  EXPECT_NE(advice.at("verdict").get<std::string>().find("Use stage"), std::string::npos);
}

// Of those that no printed digit tells apart, the one with the fewest changes: here a smaller
// bucket would gain a millionth.
TEST(Advise, ChangesNoKeyForNothing) {
  const Workplace place;
  const std::string model = place.write("config.json", R"({
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": false})");
  using Args = std::vector<std::string>;
  const Args by_config{"--model", model, "--sequence", "4096",
                       "--batch", "512", "--set",      "deepspeed.bf16.enabled=true",
                       "--ranks", "8"};
  // Here a candidate gives keys their defaults, which is no change, and another changes one key
  // more.
  const Args roomy{"llama-7b",
                   "--ranks",
                   "64",
                   "--set",
                   "deepspeed.train_micro_batch_size_per_gpu=4",
                   "--set",
                   "deepspeed.gradient_accumulation_steps=16",
                   "--set",
                   "memory.device_gib=2000"};
  for (Args args : {by_config, roomy}) {
    SCOPED_TRACE(args.front());
    args.insert(args.begin(), "advise");
    args.insert(args.end(), {"--machine", "dgx-h100", "--format", "json"});
    const Json advice = answer(args);
    const Json& best = advice.at("best");
    double fastest = best.at("step_s").get<double>();
    for (const Json& c : advice.at("candidates"))
      fastest = std::min(fastest, c.at("step_s").get<double>());
    int equally_fast = 0;
    for (const Json& c : advice.at("candidates")) {
      if (!c.at("exact") || c.at("step_s").get<double>() > 1.0004 * fastest) continue;
      ++equally_fast;
      if (c.at("tight")) continue;
      EXPECT_FALSE(best.at("tight"));
      EXPECT_LE(best.at("deck_changes").size(), c.at("deck_changes").size()) << c;
    }
    EXPECT_GT(equally_fast, 1);
  }
}

// With 1 % more than a candidate takes, it is tight. One that has room is recommended in its place
// if it is at most 1 % slower; else the fastest of those that have room is named beside it.
TEST(Advise, GoesWithoutRoomOnlyForMoreThanOnePercent) {
  const Workplace place;
  const auto ask = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"advise",   place.deck(0), "--machine", machine(place, "1"),
                                  "--ranks",  "4",           "--batch",   "8",
                                  "--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    return answer(args);
  };
  const Json roomy = ask({});
  EXPECT_TRUE(roomy.at("with_room").is_null()) << roomy.at("with_room");
  std::set<std::int64_t> sizes;
  for (const Json& c : roomy.at("candidates"))
    sizes.insert(c.at("device_bytes").get<std::int64_t>());
  std::set<bool> met;
  for (const std::int64_t bytes : sizes) {
    if (met.size() == 2) break;
    const double gib = 1.01 * static_cast<double>(bytes) / (1 << 30);
    const Json advice = ask({"--set", "memory.device_gib=" + std::to_string(gib)});
    SCOPED_TRACE(gib);
    double fastest = 0, with_room = 0;
    for (const Json& c : advice.at("candidates")) {
      const auto rate = c.at("tokens_per_s").get<double>();
      fastest = std::max(fastest, rate);
      if (!c.at("tight").get<bool>()) with_room = std::max(with_room, rate);
    }
    const bool tight = advice.at("best").at("tight").get<bool>();
    met.insert(tight);
    EXPECT_EQ(tight, with_room < fastest / 1.01) << fastest << ' ' << with_room;
    EXPECT_EQ(advice.at("with_room").is_null(), !tight || with_room == 0);
    if (!tight || with_room == 0) continue;
    EXPECT_FALSE(advice.at("with_room").at("tight").get<bool>());
    EXPECT_TRUE(advice.at("with_room").at("exact").get<bool>());
    EXPECT_EQ(advice.at("with_room").at("tokens_per_s"), with_room);
    const auto verdict = advice.at("verdict").get<std::string>();
    EXPECT_NE(verdict.find("The fastest with room, "), std::string::npos) << verdict;
  }
  EXPECT_EQ(met.size(), 2U);
  // Here the fastest is tight, and one with room is slower by more than equally fast ones are.
  const Json close =
      answer({"advise", "llama-7b", "--machine", "dgx-h100", "--ranks", "64", "--batch", "512",
              "--format", "json", "--set", "memory.device_gib=62"});
  double fastest_s = close.at("best").at("step_s").get<double>();
  for (const Json& c : close.at("candidates"))
    fastest_s = std::min(fastest_s, c.at("step_s").get<double>());
  EXPECT_FALSE(close.at("best").at("tight").get<bool>());
  EXPECT_GT(close.at("best").at("step_s").get<double>(), 1.0005 * fastest_s);
}

// DeepSpeed's stage 0 does not add up 16-bit gradients in fp32; memory is not what it lacks.
TEST(Advise, SaysWhichStagesAreRefused) {
  const Workplace place;
  const Json advice = answer(
      {"advise", place.deck(3), "--machine", machine(place, "1"), "--ranks", "2", "--batch", "8",
       "--format", "json", "--set", R"(deepspeed.optimizer={"type": "Muon"})", "--set",
       "deepspeed.zero_optimization.reduce_scatter=false", "--set", "deepspeed.bf16.enabled=true",
       "--set", R"(deepspeed.data_types={"grad_accum_dtype": "fp32"})"});
  const auto verdict = advice.at("verdict").get<std::string>();
  EXPECT_NE(verdict.find("Stage 0 is refused"), std::string::npos) << verdict;
  for (const char* refused : {"Stage 1 is refused", "Stage 2 is refused", "Stage 3 is refused"})
    EXPECT_EQ(verdict.find(refused), std::string::npos) << verdict;
  for (const Json& c : advice.at("candidates")) EXPECT_EQ(c.at("schedule"), "deepspeed");
}

// DeepSpeed takes Muon at stage 3 only without reduce-scatter.
TEST(Advise, ChangesWhatTheOptimizerNeeds) {
  const Workplace place;
  const Json advice =
      answer({"advise", place.deck(2), "--machine", machine(place, "1"), "--ranks", "2", "--batch",
              "8", "--format", "json", "--set", R"(deepspeed.optimizer={"type": "Muon"})"});
  int sharded = 0;
  for (const Json& c : advice.at("candidates"))
    if (c.at("stage") == 3) {
      ++sharded;
      EXPECT_EQ(c.at("deck_changes").at("deepspeed.zero_optimization.reduce_scatter"), false);
    }
  EXPECT_GT(sharded, 0);
}

TEST(Advise, TriesShardsOverWholeNodes) {
  const Workplace place;
  const Json advice = answer({"advise", place.deck(0), "--machine", machine(place, "1"), "--ranks",
                              "8", "--batch", "8", "--format", "json", "--for", "shardmark"});
  std::set<std::string> tried;
  for (const auto& [key, values] : advice.at("without_effect").items())
    for (const Json& value : values) tried.insert(key + "=" + value.dump());
  for (const char* list : {"candidates", "refused"})
    for (const Json& c : advice.at(list))
      for (const auto& [key, value] : c.at("deck_changes").items())
        tried.insert(key + "=" + value.dump());
  for (const char* change :
       {"run.shard_size=2", "run.shard_size=4", "torch.mesh=[4,2]", "torch.mesh=[2,4]",
        "torch.reshard_after_forward=2", "deepspeed.zero_optimization.zero_hpz_partition_size=2",
        "deepspeed.zero_optimization.stage3_max_reuse_distance=0"})
    EXPECT_TRUE(tried.contains(change)) << change;
}

TEST(Advise, LooksForKnobsWithWhichAStageThatAlmostFitsDoes) {
  const Workplace place;
  // Stage 2 fits with small buckets only.
  const Json advice =
      answer({"advise",    place.deck(2),
              "--machine", machine(place, "16"),
              "--ranks",   "8",
              "--batch",   "8",
              "--format",  "json",
              "--set",     "deepspeed.bf16.enabled=true",
              "--set",     "model.layers=48",
              "--set",     "model.hidden=1600",
              "--set",     "model.heads=25",
              "--set",     "model.vocab=50257",
              "--set",     "memory.device_gib=7.7",
              "--set",     "deepspeed.zero_optimization.reduce_bucket_size=500000000"});
  bool found = false;
  for (const Json& c : advice.at("candidates")) {
    const Json& changes = c.at("deck_changes");
    if (c.at("schedule") != "deepspeed" || c.at("stage") != 2 || c.at("host_bytes") != 0) continue;
    EXPECT_TRUE(changes.contains("deepspeed.zero_optimization.reduce_bucket_size"));
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST(Advise, WritesDecksThatPlanAsAdvised) {
  const Workplace place;
  const std::string folder = place.path("decks");
  const Json advice = answer({"advise", place.deck(0), "--machine", machine(place, "1"), "--ranks",
                              "4", "--batch", "8", "--format", "json", "--write", folder});
  int decks = 0;
  for (const Json& path : advice.at("written")) {
    const std::string file = path.get<std::string>();
    if (file.ends_with("-deepspeed.json")) continue;
    const Json plan =
        answer({"plan", file, "--ranks", "4", "--ranks-per-node", "2", "--format", "json"});
    if (file.find("best-") != std::string::npos) {
      EXPECT_EQ(plan.at("memory").at("device").at("arena"), advice.at("best").at("device_bytes"));
    }
    ++decks;
  }
  EXPECT_GE(decks, 1);
}

TEST(Advise, FindsTheLargestModelOfTheZeroPaper) {
  const Workplace place;
  // Table 2 of the ZeRO paper: 32 GB, 64 GPUs: 2, 7.6, 14.4 and 128 billion parameters. It holds
  // for any width, and few layers of this one fit.
  const Json models = answer({"advise", place.deck(0, {{"model", {{"hidden", 8192}}}}), "--machine",
                              machine(place, "29.802322387695312"), "--ranks", "64", "--max-model",
                              "--format", "json", "--set", "memory.device_gib=29.802322387695312"});
  const double expected[] = {2.0, 7.6, 14.4, 128};
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_NEAR(models.at("max_models").at(stage).at("parameters_by_states").get<double>() * 1e-9,
                expected[stage], 0.006 * expected[stage]);
}

TEST(Advise, RefusesInOneLine) {
  const Workplace place;
  struct Case {
    std::vector<std::string> args;
    int status;
    std::string part;
  };
  const std::string deck = place.deck(0);
  const std::vector<Case> cases{
      {{deck, "--machine", machine(place, "1"), "--ranks", "4", "--batch", "4", "--set",
        "memory.device_gib=0.0001"},
       3,
       "fit"},
      {{deck, "--machine", machine(place, "1"), "--ranks", "4", "--batch", "6"}, 2, "use 8"},
      {{deck, "--machine", machine(place, "1", false), "--ranks", "4", "--batch", "4"},
       2,
       "between_nodes"},
      {{deck, "--machine", place.path("missing.json"), "--ranks", "4"}, 2, "missing.json"},
      {{deck, "--machine", "dgx-h10", "--ranks", "4"}, 2, "did you mean dgx-h100?"},
      {{deck, "--machine", "dgx-h100", "--ranks", "4", "--max-model", "--networks"},
       2,
       "beside --networks"},
      {{deck, "--machine", "dgx-h100", "--ranks", "4", "--max-model", "--set",
        "memory.device_gib=0.00001"},
       3,
       "not even one layer fits"}};
  for (const Case& c : cases) {
    std::vector<std::string> args{"advise"};
    args.insert(args.end(), c.args.begin(), c.args.end());
    const Outcome outcome = run({.args = args, .limit_s = 60});
    EXPECT_EQ(outcome.status, c.status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(c.part), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Compare, ShowsPredictionsSideBySide) {
  const Workplace place;
  const std::string m = machine(place, "1");
  const Outcome predicted = run(
      {.args = {"predict", place.deck(1), "--machine", m, "--ranks", "1,2", "--format", "json"}});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  const std::string file = place.write("prediction.json", predicted.out);
  const Json c =
      answer({"compare", file, file, "--format", "json", "--html", place.path("c.html")});
  EXPECT_EQ(c.at("subjects").size(), 4U);
  EXPECT_FALSE(c.at("comparable"));  // the numbers of ranks differ
  EXPECT_TRUE(std::filesystem::exists(place.path("c.html")));
  const Outcome alone = run({.args = {"compare", place.deck(0)}});
  EXPECT_EQ(alone.status, 2);
  EXPECT_EQ(std::count(alone.err.begin(), alone.err.end(), '\n'), 1) << alone.err;
}

// Candidates of a model of 48 layers or more are first planned with few of them. What the table and
// the answer say is planned with all.
TEST(Advise, PlansTheTableAndTheBestOfEachStageWithAllLayers) {
  const Json advice = answer({"advise", "llama-tiny-z3", "--set", "model.layers=64", "--machine",
                              "dgx-h100", "--ranks", "8", "--top", "25", "--format", "json"});
  const Json& candidates = advice.at("candidates");
  ASSERT_GT(candidates.size(), 30U);
  std::set<std::string> stages;
  bool some_estimated = false;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Json& c = candidates[i];
    const bool best = stages.insert(c.at("stage").dump()).second;
    EXPECT_TRUE(c.at("exact").get<bool>() || (i >= 25 && !best)) << i;
    some_estimated |= !c.at("exact").get<bool>();
  }
  EXPECT_TRUE(some_estimated);
}

}  // namespace
}  // namespace shardmark::test::advise_command_test
