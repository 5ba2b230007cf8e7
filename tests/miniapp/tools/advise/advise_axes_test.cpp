// SPDX-License-Identifier: Apache-2.0
// `advise` where ranks divide layers, samples or experts: every candidate trains the deck's
// sequences per step, which are not those of all ranks, and what is written can be read again.
#include <algorithm>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::advise_axes_test {
namespace {

Json answer(std::vector<std::string> args) {
  args.insert(args.end(), {"--machine", "dgx-a100-80gb", "--format", "json"});
  const Outcome outcome = run({.args = args});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return outcome.status == 0 ? Json::parse(outcome.out) : Json();
}

struct Case {
  const char* deck;
  int parts;       // of 4 ranks, with samples of their own
  int per_tensor;  // ranks that DeepSpeed counts for each part in train_batch_size
};

class AdviseAxes : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Decks, AdviseAxes,
                         ::testing::Values(Case{"llama-tiny-tp2", 2, 2},
                                           Case{"llama-tiny-sp2", 2, 1},
                                           Case{"moe-tiny-ep2", 4, 1}),
                         [](const auto& one) {
                           std::string name = one.param.deck;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(AdviseAxes, KeepTheSequencesOfAStep) {
  const Case& c = GetParam();
  const Json given = answer({"predict", c.deck, "--ranks", "4"}).at("points").at(0);
  const Json advice = answer({"advise", c.deck, "--ranks", "4"});
  const auto global = advice.at("global_batch").get<std::int64_t>();
  EXPECT_NEAR(given.at("tokens_per_s").get<double>() * given.at("step_s").get<double>(),
              static_cast<double>(global * 128), 1);
  ASSERT_GT(advice.at("candidates").size(), 4u);
  for (const Json& candidate : advice.at("candidates")) {
    const Json& keys = candidate.at("deck_changes");
    const auto of = [&](const char* key) {
      return keys.at(std::string("deepspeed.") + key).get<std::int64_t>();
    };
    const std::int64_t train = of("train_batch_size");
    EXPECT_EQ(train, global * c.per_tensor) << candidate;
    EXPECT_EQ(of("train_micro_batch_size_per_gpu") * of("gradient_accumulation_steps") * c.parts,
              global)
        << candidate;
  }
}

TEST_P(AdviseAxes, WriteWhatHasTheFiguresOfTheAdvice) {
  const Case& c = GetParam();
  const Workplace place;
  const Json advice = answer({"advise", c.deck, "--ranks", "4", "--write", place.path("advice")});
  const std::string best =
      place.path("advice/best-stage" + std::to_string(advice.at("best").at("stage").get<int>()));
  const double wanted = advice.at("best").at("step_s").get<double>();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"predict", best + ".json", "--ranks", "4"},
        std::vector<std::string>{"predict", c.deck, "--deepspeed", best + "-deepspeed.json",
                                 "--ranks", "4"}}) {
    const Json points = answer(args).at("points");
    EXPECT_NEAR(points.at(0).at("step_s").get<double>(), wanted, 1e-3 * wanted) << args[1];
  }
}

TEST(AdviseAxesBatch, CountsWhatDeepSpeedCounts) {
  // 4 ranks, of which 2 at a time have the same data: a train_batch_size of 8 is 4 sequences.
  EXPECT_EQ(answer({"advise", "llama-tiny-tp2", "--ranks", "4", "--batch", "8"}).at("global_batch"),
            4);
  EXPECT_EQ(answer({"advise", "llama-tiny-sp2", "--ranks", "4", "--batch", "6"}).at("global_batch"),
            6);
  const Outcome odd = run({.args = {"advise", "llama-tiny-sp2", "--machine", "dgx-a100-80gb",
                                    "--ranks", "4", "--batch", "7"}});
  EXPECT_EQ(odd.status, 2);
  EXPECT_NE(odd.err.find("must be a multiple of the 2 ranks that have samples of their own: use 8"),
            std::string::npos)
      << odd.err;
}

TEST(AdviseAxesModel, CountsWhatTensorsDivide) {
  const auto states = [](const std::string& deck, const std::string& ranks) {
    return answer(
               {"advise", deck, "--ranks", ranks, "--max-model", "--set", "memory.device_gib=0.5"})
        .at("max_models");
  };
  const Json divided = states("llama-tiny-tp2", "4"), alone = states("llama-tiny-z3", "2");
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_DOUBLE_EQ(divided.at(stage).at("parameters_by_states").get<double>(),
                     2 * alone.at(stage).at("parameters_by_states").get<double>());
  EXPECT_TRUE(states("moe-tiny-ep2", "4").at(1).at("parameters_by_states").is_null());
}

}  // namespace
}  // namespace shardmark::test::advise_axes_test
