// SPDX-License-Identifier: Apache-2.0
// `advise --networks` and `--max-model` say of which model they speak, and give no rate to what
// does not fit; the ranges of bandwidth in which another candidate is faster do not contradict each
// other.
#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::advise_networks_test {
namespace {

class AdviseNetworks : public testing::Test {
 protected:
  Outcome advise(std::vector<std::string> more) {
    std::vector<std::string> args{"advise", deck_, "--machine", "dgx-a100-80gb"};
    args.insert(args.end(), more.begin(), more.end());
    Outcome outcome = run({.args = args, .limit_s = 60});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  }
  Json answer(std::vector<std::string> more) {
    more.insert(more.end(), {"--format", "json"});
    return Json::parse(advise(std::move(more)).out);
  }
  Workplace place_;
  std::string deck_ = place_.deck(
      1, {{"name", "Tom & <Jerry>"},
          {"model",
           {{"layers", 12}, {"hidden", 1024}, {"heads", 16}, {"sequence", 512}, {"vocab", 32000}}},
          {"deepspeed", {{"train_micro_batch_size_per_gpu", 3}, {"bf16", {{"enabled", true}}}}},
          {"memory", {{"device_gib", 3}, {"host_gib", 100}}}});
};

TEST_F(AdviseNetworks, GiveNoRateToWhatDoesNotFit) {
  const Json advice = answer({"--ranks", "16", "--networks", "--write", place_.path("a")});
  ASSERT_FALSE(advice.at("networks").empty());
  bool lacks = false, runs = false;
  for (const Json& row : advice.at("networks"))
    for (std::size_t stage = 0; stage < 4; ++stage) {
      const bool fits = row.at("fits_by_stage").at(stage);
      EXPECT_EQ(row.at("tokens_per_s_by_stage").at(stage).is_null(), !fits) << row;
      (fits ? runs : lacks) = true;
    }
  EXPECT_TRUE(lacks && runs) << advice.at("networks");
}

TEST_F(AdviseNetworks, DrawBarsOfWhatFits) {
  const Outcome outcome = advise({"--ranks", "16", "--networks", "--write", place_.path("a")});
  EXPECT_NE(outcome.out.find("no memory"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("stage 0: does not fit: it needs"), std::string::npos) << outcome.out;
  const std::string svg = read_text(place_.path("a/networks.svg"));
  EXPECT_EQ(svg.find("polyline"), std::string::npos);
  EXPECT_EQ(svg.find("<path"), std::string::npos) << "networks are names, which no line joins";
  for (const char* words : {">InfiniBand</text>", ">8 x 400 Gb/s</text>", ">Ethernet</text>"})
    EXPECT_NE(svg.find(words), std::string::npos) << words << " in " << svg;
  EXPECT_NE(svg.find("stage 0 does not fit"), std::string::npos) << svg;
  EXPECT_NE(svg.find("Tom &amp; &lt;Jerry&gt; on 16 ranks"), std::string::npos) << svg;
  EXPECT_EQ(svg.find(", stage 0: "), std::string::npos) << "a bar of a stage that does not fit";
  EXPECT_NE(svg.find(", stage 3: "), std::string::npos);
}

TEST_F(AdviseNetworks, SayOfWhichModelTheySpeak) {
  const std::string text = advise({"--ranks", "16", "--networks"}).out;
  const std::string part = text.substr(text.find("the deck as it is, at each stage"));
  for (const char* words : {"12 layers of width 1024", "sequence 512", "bf16", "million parameters",
                            "schedule deepspeed", "micro-batch 3", "without recomputation",
                            "16 ranks of DGX A100 80 GB"})
    EXPECT_NE(part.find(words), std::string::npos) << words << " in " << part;
}

TEST_F(AdviseNetworks, LargestModelsAreOfAKind) {
  const std::string text = advise({"--ranks", "8", "--max-model"}).out;
  for (const char* words : {"width 1024", "sequence 512", "bf16", "schedule deepspeed",
                            "micro-batch 3", "without recomputation", "3 GiB of device memory"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
  const Json models = answer({"--ranks", "8", "--max-model", "--for", "torch"});
  EXPECT_EQ(models.at("for"), "torch");
  EXPECT_EQ(models.at("settings").at("schedule"), "torch");
  EXPECT_EQ(models.at("settings").at("micro_batch"), 3);
  EXPECT_EQ(models.at("model").at("hidden"), 1024);
  EXPECT_EQ(models.at("max_models").size(), 4U);
}

TEST_F(AdviseNetworks, SayWhatOneLayerWouldNeed) {
  const std::string text = advise({"--ranks", "8", "--max-model", "--set", "model.hidden=2048",
                                   "--set", "model.heads=32"})
                               .out;
  EXPECT_NE(text.find("none  not even one layer of this width fits: it needs"), std::string::npos)
      << text;
}

// Ranges lie side by side on their side of the machine's bandwidth, and neighbours differ.
void expect_sound(const Json& advice) {
  const Json& all = advice.at("crossings");
  const Json* before = nullptr;
  for (const Json& c : all) {
    const double near = c.at("node_bytes_per_s"), far = c.at("until_bytes_per_s");
    EXPECT_EQ(near > far, c.at("side") == "below") << c;
    EXPECT_GE(c.at("gain").get<double>(), 0.01) << c;
    EXPECT_NE(c.at("deck_changes"), advice.at("best").at("deck_changes")) << c;
    if (before != nullptr && before->at("side") == c.at("side")) {
      EXPECT_NE(before->at("deck_changes"), c.at("deck_changes")) << c;
    }
    before = &c;
  }
  const auto text = advice.at("verdict").get<std::string>();
  EXPECT_EQ(text.find("is the better choice"), std::string::npos) << text;
  EXPECT_EQ(text.find("these would be faster") == std::string::npos, all.empty()) << text;
}

TEST_F(AdviseNetworks, RangesDoNotContradictEachOther) {
  bool any = false;
  for (const char* ranks : {"8", "16", "64"})
    for (const char* framework : {"deepspeed", "shardmark"}) {
      const Json advice = answer({"--ranks", ranks, "--for", framework});
      expect_sound(advice);
      any = any || !advice.at("crossings").empty();
    }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace shardmark::test::advise_networks_test
