// SPDX-License-Identifier: Apache-2.0
// What is left of work follows from the part that is done.
#include <gtest/gtest.h>

#include <core/text.hpp>
#include <miniapp/run/progress.hpp>

namespace shardmark::test::time_left_test {
namespace {

TEST(TimeLeft, is_in_proportion_to_what_is_done) {
  EXPECT_EQ(time_left(10, 0.25), clock_time(30) + " left");
  EXPECT_EQ(time_left(120, 0.5), "2:00 min left");
  EXPECT_EQ(time_left(10, 1), "0 s left");
}

}  // namespace
}  // namespace shardmark::test::time_left_test
