// SPDX-License-Identifier: Apache-2.0
// Rule: what a deck leaves open is said before any answer, by every command that answers from it: a
// sequence and a size that were assumed, and a key that DeepSpeed ignores.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::assumptions_test {
namespace {

struct Command {
  const char* name;
  std::vector<std::string> args;  // behind the deck
  const char* answer;             // how its answer begins
};

class AssumedOnes : public ::testing::TestWithParam<Command> {};

TEST_P(AssumedOnes, AreSaidBeforeTheAnswer) {
  const Workplace place;
  place.write("config.json", R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 32})");
  place.deck(1,
             {{"model", "config.json"}, {"deepspeed", {{"made_up", 3}}}, {"run", {{"steps", 1}}}});
  Launch launch{.args = {GetParam().name, place.path("deck.json")}};
  for (const std::string& arg : GetParam().args)
    launch.args.push_back(arg == "OUT" ? place.out() : arg);
  const Outcome o = run(launch);
  EXPECT_EQ(o.status, 0) << o.err;
  const std::size_t answer = o.out.find(GetParam().answer);
  ASSERT_NE(answer, std::string::npos) << o.out;
  for (const std::string& note :
       {"intermediate_size is not in " + place.path("config.json") + ": 11008",
        std::string("model.sequence = 32: max_position_embeddings"),
        std::string("deepspeed.made_up: unknown to DeepSpeed, which ignores it")}) {
    const std::size_t at = o.out.find(note);
    EXPECT_LT(at, answer) << note << " is not at the head of\n" << o.out;
    EXPECT_EQ(o.out.find(note, at + 1), std::string::npos) << note << " is said twice";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Commands, AssumedOnes,
    ::testing::Values(Command{"plan", {"--ranks", "2"}, "program: "},
                      Command{"predict", {"--machine", "dgx-h100", "--ranks", "2"}, "tiny on "},
                      Command{"advise", {"--machine", "dgx-h100", "--ranks", "2"}, "Use stage "},
                      Command{"sweep",
                              {"--plan", "--ranks", "2", "--vary", "run.steps=1,2", "--out", "OUT"},
                              "  result"},
                      Command{"run", {"--out", "OUT"}, "step 1/1"}),
    [](const auto& command) { return std::string(command.param.name); });

// Where the sequence is the longest that the model allows, `plan` says what 4096 tokens would need.
TEST(Assumptions, OfALongSequenceComeWithTheNeedOfAUsualOne) {
  const Workplace place;
  place.write("config.json", R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64,
    "max_position_embeddings": 8192})");
  place.deck(1, {{"model", "config.json"},
                 {"data", {{"source", "uniform"}, {"path", nullptr}}},
                 {"run", {{"steps", 1}}}});
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", place.path("deck.json"), "--ranks", "2"});
    const Outcome o = run(Launch{.args = more});
    EXPECT_EQ(o.status, 0) << o.err;
    return o.out;
  };
  const auto json = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args{"--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    return nlohmann::json::parse(plan(args));
  };
  EXPECT_NE(plan({}).find("with model.sequence 4096: device "), std::string::npos);
  const nlohmann::json guessed = json({}), stated = json({"--set", "model.sequence=4096"});
  EXPECT_EQ(guessed.at("memory_at_sequence_4096").at("device"),
            stated.at("memory").at("device").at("arena"));
  EXPECT_FALSE(stated.contains("memory_at_sequence_4096"));
}

}  // namespace
}  // namespace shardmark::test::assumptions_test
