// SPDX-License-Identifier: Apache-2.0
// A run of a shipped deck is compared with its reference answers: each kind of difference fails the
// check, and what has no answer is not judged.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/build/legal_program.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/measure/reference.hpp>

namespace shardmark::test::reference_test {
namespace {

using Json = nlohmann::json;
using State = Check::State;

const std::string deck_path = std::string(SHARDMARK_TESTS) + "/../inputs/gpt-tiny-z3.json";

class Reference : public ::testing::Test {
 protected:
  // A run of the deck, changed by `sets`, whose losses are 5.0, 4.9, 4.8.
  Check judged(const std::vector<std::string>& sets = {}, const Json* shipped = nullptr) {
    const LoadedDeck loaded = read_deck(deck_path, sets, DeckUse::plan);
    const Json deck = Json::parse(loaded.used_json);
    const Program program = build_legal_program(
        loaded.deck, infer_batch(loaded.deck.zero, ranks, loaded.deck.path), ranks, 0, Profile{});
    return judge_by_reference({deck, loaded.deck, program, rows, state_hash},
                              {shipped != nullptr ? *shipped : shipped_, std::nullopt}, answers);
  }

  void SetUp() override {
    const LoadedDeck loaded = read_deck(deck_path, {}, DeckUse::plan);
    shipped_ = Json::parse(loaded.used_json);
    const Program program = build_legal_program(
        loaded.deck, infer_batch(loaded.deck.zero, 2, loaded.deck.path), 2, 0, Profile{});
    for (int step = 0; step < 3; ++step) rows.push_back({.step = step, .loss = 5.0 - 0.1 * step});
    const Json batch = {{"ranks", 2}, {"train_batch_size", 8}, {"made_on", "a machine"}};
    Json losses = batch, exact = batch;
    losses["set"] = Json::object();
    losses["losses"] = {{{"step", 0}, {"loss", 5.0}, {"tolerance", 1e-3}},
                        {{"step", 2}, {"loss", 4.8}, {"tolerance", 1e-2}},
                        {{"step", 54}, {"loss", 2.6}, {"tolerance", 1e-2}}};
    exact["set"] = {{"run.compute", "none"}};
    exact.update({{"steps", 3}, {"exact", true}, {"state_hash", state_hash}});
    answers = {{"plans", {{"2", plan_answer(program)}}}, {"runs", {losses, exact}}};
  }

  int ranks = 2;
  std::vector<LossRow> rows;
  Json state_hash = {{"param", "0123456789abcdef"}};
  Json answers;

 private:
  Json shipped_;
};

TEST_F(Reference, AgreesWithTheSameRun) {
  const Check check = judged();
  EXPECT_EQ(check.state, State::pass) << check.detail;
  EXPECT_EQ(check.detail, "calls, volume and memory of the plan on 2 ranks, 2 losses");
}

TEST_F(Reference, StillAppliesIfTheRunIsLongerOrWritesElsewhere) {
  EXPECT_EQ(judged({"run.steps=280", "memory.device_gib=3"}).state, State::pass);
}

TEST_F(Reference, FindsALossBeyondItsTolerance) {
  rows[2].loss = 4.789;
  const Check check = judged();
  EXPECT_EQ(check.state, State::fail);
  EXPECT_NE(check.detail.find("the loss of step 2 is 4.789"), std::string::npos) << check.detail;
  rows[2].loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judged().state, State::fail);
}

TEST_F(Reference, FindsOtherCallsVolumeMemoryAndPlans) {
  for (const char* figure : {"/volume/all_gather/calls", "/volume/reduce_scatter/bytes",
                             "/memory/device/peak", "/memory/device/arena"}) {
    Json& value = answers["plans"]["2"][Json::json_pointer(figure)];
    value = value.get<std::int64_t>() + 1;
    const Check check = judged();
    EXPECT_EQ(check.state, State::fail) << figure;
    EXPECT_NE(check.detail.find(" instead of " + value.dump()), std::string::npos) << check.detail;
    value = value.get<std::int64_t>() - 1;
  }
  answers["plans"]["2"]["plan_hash"] = "0";
  EXPECT_EQ(judged().state, State::fail);
}

TEST_F(Reference, ComparesHashesOfExactRunsOnly) {
  const Check same = judged({"run.compute=none"});
  EXPECT_EQ(same.state, State::pass);
  EXPECT_EQ(same.detail, "the hashes of the states");
  state_hash["param"] = "1";
  EXPECT_EQ(judged({"run.compute=none"}).state, State::fail);
  answers["runs"][1]["exact"] = false;  // of another processor, which adds in another order
  const Check other = judged({"run.compute=none"});
  EXPECT_EQ(other.state, State::pass);
  EXPECT_EQ(other.detail, "the hashes of the states are not those of a machine");
}

TEST_F(Reference, DoesNotJudgeWhatHasNoAnswer) {
  EXPECT_EQ(judged({"model.layers=5"}).state, State::not_applicable);
  EXPECT_EQ(judged({"deepspeed.zero_optimization.stage=2"}).state, State::not_applicable);
  rows.pop_back();  // another number of steps has another state
  EXPECT_EQ(judged({"run.compute=none"}).state, State::not_applicable);
  ranks = 5;
  const Check check = judged();
  EXPECT_EQ(check.state, State::not_applicable);
  EXPECT_EQ(check.detail, "there are no answers for 5 ranks");
}

// A deck with model.fit has other layers in another memory, and then the ranks are not the reason.
TEST_F(Reference, SaysThatOtherLayersHaveNoAnswer) {
  answers["plans"]["2"]["layers"] = 9;
  for (Json& run : answers["runs"]) run["layers"] = 9;
  const Check check = judged();
  EXPECT_EQ(check.state, State::not_applicable);
  EXPECT_NE(check.detail.find("which follow from the memory: there are for 9"), std::string::npos)
      << check.detail;
}

TEST_F(Reference, RefusesDamagedAnswers) {
  answers["runs"][0]["losses"][0]["loss"] = "five";
  EXPECT_THROW(judged(), DeckError);
  answers.erase("runs");
  EXPECT_THROW(judged(), DeckError);
}

}  // namespace
}  // namespace shardmark::test::reference_test
