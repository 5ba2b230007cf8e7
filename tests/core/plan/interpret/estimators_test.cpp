// SPDX-License-Identifier: Apache-2.0
// Rule: the estimates of other tools are reproduced to the digits that those tools print.
#include <cmath>

#include <gtest/gtest.h>

#include <core/plan/interpret/estimators.hpp>

namespace shardmark::test::estimators_test {
namespace {

TEST(Estimators, TheZeroPapersTable1) {
  struct Row {
    int ranks;
    const char* figures[9];  // P_os, P_os+g and P_os+g+p for 7.5B, 128B and 1T parameters
  };
  const Row table[] = {
      {1, {"120", "120", "120", "2048", "2048", "2048", "16000", "16000", "16000"}},
      {4, {"52.5", "41.3", "30", "896", "704", "512", "7000", "5500", "4000"}},
      {16, {"35.6", "21.6", "7.5", "608", "368", "128", "4750", "2875", "1000"}},
      {64, {"31.4", "16.6", "1.88", "536", "284", "32", "4187", "2218", "250"}},
      {256, {"30.4", "15.4", "0.47", "518", "263", "8", "4046", "2054", "62.5"}},
      {1024, {"30.1", "15.1", "0.12", "513", "257", "2", "4011", "2013", "15.6"}},
  };
  const double models[] = {7.5e9, 128e9, 1e12};
  for (const Row& row : table)
    for (int m = 0; m < 3; ++m)
      for (int stage = 1; stage <= 3; ++stage)
        EXPECT_EQ(paper_digits(paper_state_bytes(models[m], row.ranks, stage) * 1e-9),
                  row.figures[3 * m + stage - 1])
            << models[m] << " on " << row.ranks << ", stage " << stage;
}

// The bytes that DeepSpeed 0.19.8 was observed to return.
TEST(Estimators, DeepSpeedsTwoHelpers) {
  const EstimateInput in{2851'000'000, 32'000'000, 8, 1};
  const auto two = estimate_zero2(in);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].cpu_bytes, 136848000000);
  EXPECT_EQ(two[0].gpu_bytes, 5702000000);
  EXPECT_EQ(two[1].cpu_bytes, 136848000000);
  EXPECT_EQ(two[1].gpu_bytes, 12116750000);
  const std::int64_t cpu[] = {76977000000,  136848000000, 68424000000,
                              136848000000, 1536000000,   136848000000};
  const std::int64_t gpu[] = {128000000, 128000000, 840750000, 840750000, 6542750000, 6542750000};
  const auto three = estimate_zero3(in);
  ASSERT_EQ(three.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(three[i].cpu_bytes, cpu[i]) << three[i].options;
    EXPECT_EQ(three[i].gpu_bytes, gpu[i]) << three[i].options;
  }
}

TEST(Estimators, SeveralNodes) {
  const EstimateInput in{7'500'000'000, 200'000'000, 8, 8};
  const auto gb = [](std::int64_t bytes) { return std::round(bytes / 1073741824.0 * 100) / 100; };
  EXPECT_EQ(gb(estimate_zero2(in)[0].cpu_bytes), 2682.21);
  EXPECT_EQ(gb(estimate_zero2(in)[1].gpu_bytes), 15.93);
  EXPECT_EQ(gb(estimate_zero3(in)[0].cpu_bytes), 23.57);
  EXPECT_EQ(gb(estimate_zero3(in)[4].cpu_bytes), 8.94);
  EXPECT_EQ(gb(estimate_zero3(in)[4].gpu_bytes), 2.71);
}

}  // namespace
}  // namespace shardmark::test::estimators_test
