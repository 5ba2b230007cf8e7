// SPDX-License-Identifier: Apache-2.0
// What a message suggests for an unknown name: first known names that contain what was typed, then
// slips of the keyboard, and nothing that the user cannot have meant.
#include <gtest/gtest.h>

#include <io/keys/nearest.hpp>

namespace shardmark::test::nearest_test {
namespace {

using Words = std::vector<std::string>;

const Words machines{"cpu-2-socket",       "dgx-2",    "dgx-a100-40gb", "dgx-a100-80gb",
                     "dgx-a100-80gb-roce", "dgx-h100", "dgx-h100-efa",  "dgx-h200",
                     "frontier-mi250x",    "gh200",    "hgx-h100-96gb", "mi300x"};
const Words keys{"steps",
                 "steps_per_print",
                 "train_batch_size",
                 "zero_optimization",
                 "train_micro_batch_size_per_gpu",
                 "gradient_accumulation_steps",
                 "stage",
                 "lr"};

TEST(Nearest, NamesThatContainTheWordComeBeforeNamesThatOnlyLookLikeIt) {
  EXPECT_EQ(nearest("dgx-a100", machines),
            (Words{"dgx-a100-40gb", "dgx-a100-80gb", "dgx-a100-80gb-roce"}));
  EXPECT_EQ(nearest("h100", machines), (Words{"dgx-h100", "dgx-h100-efa", "hgx-h100-96gb"}));
  EXPECT_EQ(nearest("a100", machines),
            (Words{"dgx-a100-40gb", "dgx-a100-80gb", "dgx-a100-80gb-roce"}));
  EXPECT_EQ(nearest("mi250", machines), Words{"frontier-mi250x"});
  EXPECT_EQ(nearest("batch_size", keys),
            (Words{"train_batch_size", "train_micro_batch_size_per_gpu"}));
}

TEST(Nearest, PartsMayStandInAnyOrderAndBetweenOthers) {
  EXPECT_EQ(nearest("dgx-80gb", machines), (Words{"dgx-a100-80gb", "dgx-a100-80gb-roce"}));
  EXPECT_EQ(nearest("80gb-a100", machines), (Words{"dgx-a100-80gb", "dgx-a100-80gb-roce"}));
}

TEST(Nearest, CaseAndSeparatorsMakeNoDifference) {
  EXPECT_EQ(nearest("DGX_H100", machines), Words{"dgx-h100"});
  EXPECT_EQ(nearest("H100", machines), nearest("h100", machines));
  EXPECT_EQ(nearest("zero-optimization", keys), Words{"zero_optimization"});
}

TEST(Nearest, ASlipIsMeantBeforeALongerName) {
  EXPECT_EQ(nearest("dgx-h10", machines), Words{"dgx-h100"});
  EXPECT_EQ(nearest("step", Words{"steps_per_print", "steps"}), Words{"steps"});
  EXPECT_EQ(nearest("train_batch_sise", keys), Words{"train_batch_size"});
}

TEST(Nearest, AWordThatContainsAKnownOneMeansIt) {
  EXPECT_EQ(nearest("gh200-mine", machines), Words{"gh200"});
  EXPECT_EQ(nearest("my_zero_optimization", keys), Words{"zero_optimization"});
}

TEST(Nearest, NothingIsSuggestedForAWordLikeNone) {
  for (const char* word : {"x", "foo", "tpu-v5p", "summit", "-", "__", "q", "colour"}) {
    EXPECT_EQ(nearest(word, machines), Words{}) << word;
    EXPECT_EQ(nearest(word, keys), Words{}) << word;
    EXPECT_EQ(did_you_mean(word, machines), "") << word;
  }
  EXPECT_EQ(nearest(std::string(1000, 'h'), machines), Words{});
  EXPECT_EQ(nearest("", machines), Words{});
}

TEST(Nearest, AMessageNamesAllOfThem) {
  EXPECT_EQ(did_you_mean("gh20", machines), "did you mean gh200?");
  EXPECT_EQ(did_you_mean("h100", machines, "\""),
            "did you mean \"dgx-h100\", \"dgx-h100-efa\" or \"hgx-h100-96gb\"?");
  Words many;
  for (int i = 10; i < 30; ++i) many.push_back("node-" + std::to_string(i));
  EXPECT_EQ(did_you_mean("node", many),
            "did you mean node-10, node-11, node-12, node-13, node-14, node-15, node-16, node-17, "
            "node-18, node-19, node-20, node-21 or one of 8 others?");
}

}  // namespace
}  // namespace shardmark::test::nearest_test
