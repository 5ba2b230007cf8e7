// SPDX-License-Identifier: Apache-2.0
// `plan` and `deck check`: no launcher, no MPI, and output that other programs read.
#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::plan_command_test {
namespace {

std::string printed(const std::vector<std::string>& args) {
  const Outcome outcome = run({.args = args, .limit_s = 20});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(outcome.out.ends_with('\n'));
  return outcome.out;
}

class Plan : public ::testing::TestWithParam<int> {};

TEST_P(Plan, IsOneJsonObject) {
  const Workplace place;
  const Json plan = Json::parse(
      printed({"plan", place.deck(GetParam()), "--ranks", "3", "--rank", "1", "--format", "json"}));
  EXPECT_EQ(plan.at("rank"), 1);
  EXPECT_EQ(plan.at("world"), 3);
  EXPECT_EQ(plan.at("stage"), GetParam());
  EXPECT_TRUE(plan.at("memory").at("device").at("fits"));
  for (const char* key :
       {"schedule", "parameters", "plan_hash", "partition", "memory_at", "volume"})
    EXPECT_TRUE(plan.contains(key)) << key;
  const std::set<std::string> ops{"all_reduce", "reduce_scatter", "all_gather",
                                  "reduce",     "broadcast",      "barrier"};
  for (const char* step : {"0", "1", "steady"}) {
    ASSERT_FALSE(plan.at("steps").at(step).empty());
    for (const Json& row : plan.at("steps").at(step)) {
      EXPECT_TRUE(ops.contains(row.at("op"))) << row;
      EXPECT_TRUE(matches(row.at("phase").get<std::string>(), "[fb][0-9]+|s"));
      EXPECT_GE(row.at("elems_in").get<std::int64_t>(), 0);
      EXPECT_GE(row.at("elems_out").get<std::int64_t>(), 0);
    }
  }
}

// Checks the statements of the dot language that `plan` uses, without a graph tool.
TEST_P(Plan, IsAGraph) {
  const Workplace place;
  const std::string dot =
      printed({"plan", place.deck(GetParam()), "--ranks", "2", "--format", "dot"});
  EXPECT_TRUE(dot.starts_with("digraph "));
  const std::string statement =
      R"re( *(digraph \w+ \{|subgraph \w+ \{|\}|node \[[^\]]+\];|\w+=\w+;|)re"
      R"re(\w+="([^"\\]|\\.)*";|(\w+) \[label="([^"\\]|\\.)*"[^\]]*\];|)re"
      R"re(\w+ -> \w+( \[[^\]]*\])?;))re";
  int depth = 0;
  std::set<std::string> nodes;
  for (const std::string& line : lines_of(dot)) {
    const Match match = match_whole(line, statement);
    ASSERT_FALSE(match.empty()) << line;
    depth += line.ends_with('{') ? 1 : line.ends_with('}') ? -1 : 0;
    if (!match[3].empty()) nodes.insert(match[3]);
    const auto arrow = line.find(" -> ");
    if (arrow == std::string::npos) continue;
    for (const std::string& end :
         {line.substr(line.find_first_not_of(' '), arrow - line.find_first_not_of(' ')),
          line.substr(arrow + 4, line.find_first_of(" ;", arrow + 4) - arrow - 4)})
      EXPECT_TRUE(nodes.contains(end)) << "an edge to nowhere: " << line;
  }
  EXPECT_EQ(depth, 0);
  EXPECT_GT(nodes.size(), 10U);
}

TEST_P(Plan, IsText) {
  const Workplace place;
  const std::string text = printed({"plan", place.deck(GetParam()), "--ranks", "2"});
  EXPECT_NE(text.find("\nsummary\n"), std::string::npos);
  EXPECT_NE(text.find("fits in the budget of 1 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("elements per parameter and step"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Stage, Plan, ::testing::Values(0, 1, 2, 3));

TEST(LargePlan, Of16384RanksNeedsNoMpi) {
  const std::string text =
      printed({"plan", SHARDMARK_TEST_INPUTS "/gpt2-124m-z3.json", "--ranks", "16384"});
  EXPECT_NE(text.find("all_gather"), std::string::npos);
}

// Llama 3.1 405B on as many ranks as there can be, within 500 MB of address space at every stage.
TEST(LargePlan, Of131072RanksNeedsLittleMemory) {
  const Workplace place;
  const Json deck = {{"name", "llama-405b"},
                     {"model",
                      {{"family", "llama"},
                       {"layers", 126},
                       {"hidden", 16384},
                       {"heads", 128},
                       {"kv_heads", 8},
                       {"ffn", 53248},
                       {"sequence", 8192},
                       {"vocab", 128256}}},
                     {"deepspeed",
                      {{"train_micro_batch_size_per_gpu", 1},
                       {"bf16", {{"enabled", true}}},
                       {"zero_optimization", {{"stage", 3}}}}},
                     {"run", {{"steps", 20}, {"activation_checkpointing", true}}}};
  place.write("405b.json", deck.dump());
  for (const char* change :
       {"deepspeed.zero_optimization.stage=1", "deepspeed.zero_optimization.stage=2",
        "deepspeed.zero_optimization.stage=3", "run.schedule=torch"}) {
    const Outcome o = run({.args = {"plan", place.path("405b.json"), "--ranks", "131072", "--rank",
                                    "131071", "--set", change},
                           .memory_limit_bytes = 500'000'000,
                           .stdout_path = "/dev/null"});
    EXPECT_EQ(o.status, 0) << change << ": " << o.err;
  }
}

// The leaf modules of stage 3 are looked for in the list of all modules.
TEST(LargePlan, OfTooManyLayersIsRefusedBeforeAnythingListsThem) {
  const Workplace place;
  place.deck(3, {{"model",
                  {{"family", "decoder"},
                   {"layers", 100000},
                   {"ffn", 48},
                   {"moe", {{"experts", 4}, {"per_token", 2}}}}}});
  const Outcome o = run({.args = {"plan", place.path("deck.json"), "--ranks", "2"},
                         .memory_limit_bytes = 500'000'000});
  EXPECT_EQ(o.status, 2) << o.err;
  EXPECT_TRUE(contains(o.err, "model.layers = 100000: gives .* must be at most 16384")) << o.err;
}

// `plan` prints how much memory is required and exits 0, whatever the budget.
TEST(LargePlan, ThatDoesNotFitIsPrintedAllTheSame) {
  const Workplace place;
  const std::string deck = place.deck(3, {{"memory", {{"device_gib", 0.001}}}});
  EXPECT_NE(printed({"plan", deck, "--ranks", "2"}).find("does NOT fit"), std::string::npos);
  const Json plan = Json::parse(printed({"plan", deck, "--ranks", "2", "--format", "json"}));
  EXPECT_FALSE(plan.at("memory").at("device").at("fits"));
}

TEST(DeckCheck, SaysThatADeckIsSoundAndListsItsDefaults) {
  const Workplace place;
  const std::string deck =
      place.deck(2, {{"deepspeed", {{"zero_optimization", {{"stage3_max_live_parameters", 5}}}}}});
  const std::string text = printed({"deck", "check", deck, "--ranks", "2"});
  EXPECT_TRUE(text.starts_with(deck + ": sound")) << text;
  EXPECT_NE(text.find("run.warmup = 0"), std::string::npos) << text;
  EXPECT_NE(text.find("stage3_max_live_parameters: 5: has an effect only at stage 3"),
            std::string::npos)
      << text;
}

// Settings that DeepSpeed ignores are ignored, but reported.
TEST(DeckCheck, SaysThatAnOptimizerWithoutATypeIsNotUsed) {
  const Workplace place;
  const Json params = {{"optimizer", {{"params", {{"lr", 0.5}}}}}};
  const std::string text = printed({"deck", "check", place.deck(3, {{"deepspeed", params}})});
  EXPECT_NE(text.find("deepspeed.optimizer.params: "), std::string::npos) << text;
  EXPECT_NE(text.find("lr = 0.001"), std::string::npos) << text;
}

TEST(DeckCheck, FindsEveryDeckInInputsSoundAndDescribed) {
  const std::filesystem::path inputs = SHARDMARK_TEST_INPUTS;
  const std::string described = read_text(inputs / "README.md");
  int decks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(inputs)) {
    if (entry.path().extension() != ".json") continue;
    ++decks;
    const std::string deck = entry.path().string();
    const std::string text = printed({"deck", "check", deck, "--set", "memory.device_gib=80"});
    EXPECT_TRUE(text.starts_with(deck + ": sound")) << text;
    // gpt-tiny-z1 and z2 are included in "`gpt-tiny-z0.json` … `gpt-tiny-z3.json`".
    std::string name = entry.path().filename().string();
    if (contains(name, "-z[12][.]json$")) name.replace(name.size() - 8, 8, "-z0.json");
    EXPECT_NE(described.find("`" + name + "`"), std::string::npos) << name;
  }
  EXPECT_GT(decks, 10);
}

TEST(Output, ThatCannotBeWrittenIsAnError) {
  const Workplace place;
  place.deck();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"plan", place.path("deck.json"), "--ranks", "2"},
        std::vector<std::string>{"deck", "check", place.path("deck.json")}, place.run_args()}) {
    const Outcome outcome = run({.args = args, .stdout_path = "/dev/full"});
    EXPECT_EQ(outcome.status, 4) << args[0];
    EXPECT_NE(outcome.err.find("shardmark: "), std::string::npos) << args[0];
    EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace shardmark::test::plan_command_test
