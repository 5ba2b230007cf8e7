// SPDX-License-Identifier: Apache-2.0
// Decks are compared by what they mean: which changes move a run to another division.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <core/text.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/rules/division.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::division_test {
namespace {

const std::string inputs = std::string(SHARDMARK_TESTS) + "/../inputs/";
const std::string deck_path = inputs + "gpt-tiny-z3.json";

Json shipped_text() {
  return Json::parse(read_text(deck_path), nullptr, true, true);
}

Judged judged_deck(const std::string& path, const std::vector<std::string>& sets = {}) {
  const LoadedDeck loaded = read_deck(path, sets, DeckUse::plan);
  const Json text = Json::parse(loaded.used_json);
  const UsedDeck shipped{shipped_text(), data_of(shipped_text(), inputs + "text.txt")};
  return judge_division({text, data_of(text, loaded.deck.data.path)}, &shipped);
}

std::string judged(const std::vector<std::string>& sets) {
  const Judged j = judged_deck(deck_path, sets);
  return std::string(to_string(j.division)) + ": " + join(j.reasons, "; ");
}

// A section that the shipped deck does not have is judged key by key.
TEST(Divisions, JudgeEachKeyOfASectionThatWasAdded) {
  const UsedDeck shipped{{{"name", "a"}, {"run", {{"steps", 3}}}}, std::nullopt};
  const auto with = [&](const char* pointer, const Json& value) {
    UsedDeck deck = shipped;
    deck.text[Json::json_pointer(pointer)] = value;
    return judge_division(deck, &shipped);
  };
  EXPECT_EQ(with("/memory/device_gib", 3).division, Division::as_is);
  EXPECT_EQ(with("/checkpoint/dir", "c").division, Division::as_is);
  EXPECT_EQ(with("/checkpoint/every", 2).division, Division::tuned);
  EXPECT_EQ(with("/expect/loss", 2).division, Division::unranked);
  EXPECT_EQ(with("/memory/other", Json::object()).reasons.size(), 1U);
}

TEST(Divisions, LetSetChangeWhatTheRulesLeaveFree) {
  for (const char* set : {"run.steps=450", "run.warmup=4", "run.time_limit_s=3600",
                          "comm.backend=mpi", "comm.timeout_s=90", "memory.device_gib=3",
                          "memory.host_gib=3", "memory.allowance_mib=512", "trace=trace.json"})
    EXPECT_EQ(judged({set}), "as-is: ") << set;
  EXPECT_EQ(judged({"checkpoint.dir=elsewhere", "checkpoint.keep=1"}), "as-is: ");
}

TEST(Divisions, NameTheKeyAndBothValues) {
  EXPECT_EQ(judged({"deepspeed.zero_optimization.stage=2"}),
            "tuned: deepspeed.zero_optimization.stage: 2 instead of 3");
  EXPECT_EQ(judged({"run.seed=2", "deepspeed.zero_optimization.stage=2"}),
            "unranked: deepspeed.zero_optimization.stage: 2 instead of 3; run.seed: 2 instead of "
            "1");
  EXPECT_EQ(judge_division({shipped_text(), std::nullopt}, nullptr).division, Division::unranked);
}

TEST(Divisions, TakeADefaultThatIsWrittenOutForNoChange) {
  const std::string zero = "deepspeed.zero_optimization.";
  for (const std::string& set :
       {zero + "reduce_bucket_size=5000000", zero + "overlap_comm=true",
        zero + "stage3_prefetch_bucket_size=5e7", zero + "prefetch_bucket_size=50000000",
        zero + "allgather_bucket_size=500000000", zero + "offload_param.device=none",
        zero + "round_robin_gradients=false", std::string("deepspeed.fp16.enabled=false"),
        std::string("deepspeed.optimizer.params.weight_decay=1e-1"),
        std::string("deepspeed.wall_clock_breakdown=false"), std::string("run.compute=train"),
        std::string("run.reductions=native"), std::string("comm.delay_ms=0"),
        std::string("model.tied_head=false"), std::string("data.seed=1")})
    EXPECT_EQ(judged({set}), "as-is: ") << set;
  EXPECT_EQ(judged({"run.reductions=ordered"}),
            "unranked: run.reductions: \"ordered\" instead of nothing");
  EXPECT_EQ(judged({zero + "overlap_comm=false"}),
            "tuned: deepspeed.zero_optimization.overlap_comm: false instead of nothing");
}

// Each default alone adds nothing, but the section asks for traffic.
TEST(Divisions, NoticeASectionOfDefaultsThatActsByBeingThere) {
  const Judged j = judged_deck(deck_path, {"congestion.pattern=pairs", "congestion.mib=1"});
  EXPECT_EQ(j.division, Division::unranked) << join(j.reasons, "; ");
}

TEST(Divisions, OfACopiedDeckDependOnTheContentOfItsText) {
  const Workplace place;
  Json deck = shipped_text();
  const std::string path = place.path("copy.json");
  place.write("same.txt", read_text(inputs + "text.txt"));
  deck["data"]["path"] = place.path("same.txt");
  deck["run"]["steps"] = 450;
  place.write("copy.json", deck.dump());
  EXPECT_EQ(judged_deck(path).division, Division::as_is) << join(judged_deck(path).reasons, "; ");
  deck["data"]["path"] = "same.txt";
  place.write("copy.json", deck.dump());
  EXPECT_EQ(judged_deck(path).division, Division::as_is);
  std::string text = read_text(inputs + "text.txt");
  text[text.size() / 2] ^= 1;
  place.write("same.txt", text);
  const Judged other = judged_deck(path);
  EXPECT_EQ(other.division, Division::unranked);
  ASSERT_EQ(other.reasons.size(), 1U);
  EXPECT_TRUE(other.reasons[0].starts_with("data.path: a text with hash ")) << other.reasons[0];
  EXPECT_NE(other.reasons[0].find("instead of the shipped one with hash "), std::string::npos);
}

TEST(Divisions, TakeTheSameDeepSpeedConfigFromAFile) {
  const Workplace place;
  Json deck = shipped_text();
  const std::string config = place.write("ds.json", deck["deepspeed"].dump());
  EXPECT_EQ(judged({"deepspeed=" + config}), "as-is: ");
  deck["deepspeed"]["zero_optimization"]["stage"] = 1;
  place.write("ds.json", deck["deepspeed"].dump());
  EXPECT_EQ(judged({"deepspeed=" + config}),
            "tuned: deepspeed.zero_optimization.stage: 1 instead of 3");
}

TEST(Divisions, LetAStorageDeckWriteMoreOftenAndNoOther) {
  const auto with = [](int shipped, int used) {
    const UsedDeck s{{{"name", "a"}, {"checkpoint", {{"benchmark", shipped}}}}, std::nullopt};
    const UsedDeck u{{{"name", "a"}, {"checkpoint", {{"benchmark", used}}}}, std::nullopt};
    return judge_division(u, &s).division;
  };
  EXPECT_EQ(with(10, 500), Division::as_is);
  EXPECT_NE(with(0, 10), Division::as_is);
}

}  // namespace
}  // namespace shardmark::test::division_test
