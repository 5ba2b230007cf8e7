// SPDX-License-Identifier: Apache-2.0
// Rule: two figures relate in percent up to a factor of ten and by a factor beyond it.
#include <cmath>

#include <gtest/gtest.h>

#include <core/text.hpp>

namespace shardmark::test::relation_test {
namespace {

TEST(Relations, BecomeFactorsBeyondAFactorOfTen) {
  EXPECT_EQ(relation(1.234, 1), "+23.4 %");
  EXPECT_EQ(relation(0.25, 1), "-75.0 %");
  EXPECT_EQ(relation(0, 1), "-100.0 %");
  EXPECT_EQ(relation(10, 1), "+900.0 %");
  EXPECT_EQ(relation(12.5, 1), "12.5 times");
  EXPECT_EQ(relation(17213.86, 1), "17 214 times");
  EXPECT_EQ(relation(1234567, 1), "1 234 567 times");
  EXPECT_EQ(relation(1, 12), "1/12 of it");
  for (const auto& [value, reference] :
       {std::pair{1.0, 0.0}, {0.0, 0.0}, {std::nan(""), 1.0}, {1.0, std::nan("")}, {-1.0, 1.0}})
    EXPECT_EQ(relation(value, reference), "");
}

}  // namespace
}  // namespace shardmark::test::relation_test
