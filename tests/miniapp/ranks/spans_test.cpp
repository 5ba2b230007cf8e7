// SPDX-License-Identifier: Apache-2.0
// How long something takes that ranks do together, by clocks that the test makes.
#include <gtest/gtest.h>

#include <miniapp/ranks/clock_offset.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::spans_test {
namespace {

class Spans : public ::testing::Test {
 protected:
  const int rank_ = world_rank();
  std::unique_ptr<Communicator> lane_ = make_world(make_options());
  Peers peers_{*lane_};
  const double last_ = peers_.size() - 1;
};

TEST_F(Spans, begin_when_the_last_rank_starts_and_end_when_the_last_one_has_ended) {
  // The last rank starts last, and the first one ends last: in the second of both, later.
  const std::vector<double> starts{10.0 + rank_, 100.0 + 2 * rank_};
  const std::vector<double> ends{50.0 - rank_, 200.0 - rank_};
  const std::vector<double> seconds = spans(starts, ends, peers_);
  ASSERT_EQ(seconds.size(), 2);
  EXPECT_EQ(seconds[0], 40 - last_);
  EXPECT_EQ(seconds[1], 100 - 2 * last_);
}

TEST_F(Spans, stay_within_what_ranks_measure_if_their_clocks_disagree) {
  // Rank r takes 5 + r s, and its clock is r minutes fast, or slow.
  for (const double minute : {60.0, -60.0}) {
    const double start = minute * rank_;
    const double seconds = spans({start}, {start + 5 + rank_}, peers_)[0];
    EXPECT_GE(seconds, 5);
    EXPECT_LE(seconds, 5 + last_);
  }
}

}  // namespace
}  // namespace shardmark::test::spans_test
