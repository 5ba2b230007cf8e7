// SPDX-License-Identifier: Apache-2.0
// `advise` where ranks divide layers, samples or experts, or could: every candidate trains the
// deck's sequences per step, which are not those of all ranks; degrees that DeepSpeed and the model
// allow are candidates, and others are not; and what is written can be read again.
#include <algorithm>
#include <set>

#include <fmt/core.h>
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
  int tensors = 1, samples = 1;  // the deck's degrees
};

const char* const tensors_key = "deepspeed.tensor_parallel.autotp_size";
const char* const samples_key = "deepspeed.sequence_parallel_size";
const char* const experts_key = "deepspeed.expert_parallel.autoep_size";

std::int64_t degree(const Json& candidate, const char* key, std::int64_t own) {
  return candidate.at("deck_changes").value(key, own);
}

class AdviseAxes : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Decks, AdviseAxes,
                         ::testing::Values(Case{"llama-tiny-tp2", 2, 1},
                                           Case{"llama-tiny-sp2", 1, 2}, Case{"moe-tiny-ep2"},
                                           Case{"llama-tiny-z3"}),
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
    const std::int64_t tensors = degree(candidate, tensors_key, c.tensors);
    const std::int64_t samples = degree(candidate, samples_key, c.samples);
    EXPECT_EQ(of("train_batch_size"), global * tensors) << candidate;
    EXPECT_EQ(of("train_micro_batch_size_per_gpu") * of("gradient_accumulation_steps") * 4,
              global * tensors * samples)
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

// The degrees that candidates have, with 1 if a candidate does not set the key.
std::set<std::int64_t> degrees_of(const Json& advice, const char* key) {
  std::set<std::int64_t> all;
  for (const Json& c : advice.at("candidates")) all.insert(degree(c, key, 1));
  return all;
}

using Degrees = std::set<std::int64_t>;

TEST(AdviseDegrees, AreThoseThatTheModelAllows) {
  const Json llama = answer({"advise", "llama-tiny-z3", "--ranks", "8"});
  EXPECT_EQ(degrees_of(llama, tensors_key), (Degrees{1, 2})) << "2 heads of keys and values";
  EXPECT_EQ(degrees_of(llama, samples_key), (Degrees{1, 2, 4})) << "4 heads";
  EXPECT_EQ(degrees_of(llama, experts_key), (Degrees{1}));
  const Json mixture = answer({"advise", "moe-tiny", "--ranks", "4"});
  EXPECT_EQ(degrees_of(mixture, experts_key), (Degrees{1, 2, 4}));
  EXPECT_EQ(degrees_of(mixture, samples_key), (Degrees{1}));
  EXPECT_EQ(degrees_of(mixture, tensors_key), (Degrees{1, 2})) << "beside experts";
  for (const Json& c : mixture.at("candidates")) {
    if (degree(c, tensors_key, 1) == 1) continue;
    EXPECT_EQ(c.at("deck_changes").at("deepspeed.tensor_parallel.preset_model"), "mixtral") << c;
  }
  const Json gpt = answer({"advise", "gpt-tiny-z3", "--ranks", "4"});
  for (const char* key : {tensors_key, samples_key, experts_key})
    EXPECT_EQ(degrees_of(gpt, key), (Degrees{1}));
  EXPECT_EQ(gpt.at("verdict").get<std::string>().find("Dividing"), std::string::npos);
  const Json torch = answer({"advise", "llama-tiny-z3", "--ranks", "4", "--for", "torch"});
  EXPECT_EQ(degrees_of(torch, samples_key), (Degrees{1}));
}

// The deck's own degrees are candidates, and so is dividing nothing.
TEST(AdviseDegrees, MayBeOtherThanTheDecks) {
  const Json advice = answer({"advise", "moe-tiny-ep2", "--ranks", "4"});
  bool undivided = false;
  for (const Json& c : advice.at("candidates"))
    undivided |= c.at("deck_changes").value("deepspeed.expert_parallel.enabled", true) == false;
  EXPECT_TRUE(undivided);
}

// Where experts are expensive to gather, they are divided, and the answer says what that gains.
TEST(AdviseDegrees, AreExplainedAndWritten) {
  const Workplace place;
  const std::vector<std::string> on{"mixtral-8x7b-ep8", "--ranks", "32"};
  std::vector<std::string> args{"advise", "--write", place.path("advice"), "--set",
                                "deepspeed.expert_parallel.enabled=false"};
  args.insert(args.end(), on.begin(), on.end());
  const Json advice = answer(args);
  const Json& best = advice.at("best");
  EXPECT_GT(degree(best, experts_key, 1), 1);
  const std::string verdict = advice.at("verdict");
  EXPECT_NE(verdict.find("This divides experts over "), std::string::npos) << verdict;
  // Candidates are in the order of their steps' times.
  const auto other = std::ranges::find_if(advice.at("candidates"), [](const Json& c) {
    return degree(c, experts_key, 1) * degree(c, tensors_key, 1) * degree(c, samples_key, 1) == 1;
  });
  ASSERT_NE(other, advice.at("candidates").end());
  const double gain = 1 - best.at("step_s").get<double>() / other->at("step_s").get<double>();
  const std::string says = fmt::format(
      "the fastest candidate that divides nothing is {:.1f} % slower and takes", 100 * gain);
  EXPECT_NE(verdict.find(says), std::string::npos) << says << "\n" << verdict;
  const std::string deck =
      place.path("advice/best-stage" + std::to_string(best.at("stage").get<int>()) + ".json");
  const Json point = answer({"predict", deck, "--ranks", "32"}).at("points").at(0);
  const double wanted = best.at("step_s").get<double>();
  EXPECT_NEAR(point.at("step_s").get<double>(), wanted, 1e-3 * wanted);
  EXPECT_EQ(run({.args = {"deck", "check", deck, "--ranks", "32"}}).status, 0);
}

// What each candidate of the table sets gives its figures, whatever it divides.
TEST(AdviseDegrees, HaveTheFiguresOfPredict) {
  const Json advice = answer({"advise", "llama-tiny-z3", "--ranks", "4"});
  std::set<std::int64_t> divided;
  for (const Json& c : advice.at("candidates")) {
    const std::int64_t ways = degree(c, tensors_key, 1) * 10 + degree(c, samples_key, 1);
    if (!c.at("exact").get<bool>() || !divided.insert(ways).second) continue;
    std::vector<std::string> args{"predict", "llama-tiny-z3", "--ranks", "4"};
    for (const auto& [key, value] : c.at("deck_changes").items())
      args.insert(
          args.end(),
          {"--set", key + "=" + (value.is_string() ? value.get<std::string>() : value.dump())});
    const Json point = answer(args).at("points").at(0);
    const double wanted = c.at("step_s").get<double>();
    EXPECT_NEAR(point.at("step_s").get<double>(), wanted, 1e-9 * wanted) << c;
  }
  EXPECT_GT(divided.size(), 1u);
}

TEST(AdviseDegrees, AreRowsOfASweep) {
  const Workplace place;
  const Outcome sweep = run({.args = {"sweep", "llama-tiny-z3", "--plan", "--ranks", "4", "--vary",
                                      "deepspeed.tensor_parallel.autotp_size=1,2", "--vary",
                                      "deepspeed.sequence_parallel_size=1,2", "--machine",
                                      "dgx-a100-80gb", "--out", place.path("sweep")}});
  EXPECT_NE(sweep.out.find("4 points: 3 planned, 1 refused"), std::string::npos) << sweep.out;
  EXPECT_NE(sweep.out.find("Data inconsistency within the TP group"), std::string::npos);
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
