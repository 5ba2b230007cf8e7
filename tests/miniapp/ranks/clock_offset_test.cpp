// SPDX-License-Identifier: Apache-2.0
// The offset of a rank's clock from rank 0's, by clocks that the test makes.
#include <gtest/gtest.h>

#include <miniapp/ranks/clock_offset.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::clock_offset_test {
namespace {

class ClockOffset : public ::testing::Test {
 protected:
  // Readings 1 s apart. Rank r's clock is r hours ahead. Each rank arrives early at every third
  // barrier and leaves every third one late, at others than its neighbours. The ranks behind a
  // network of 1 s come to all barriers a quarter of a second before rank 0, which therefore leaves
  // them so much earlier.
  std::int64_t offset(const std::string& host) {
    constexpr std::int64_t second = 1'000'000'000;
    std::int64_t readings = 0;
    return clock_offset_ns(peers_, host, [&] {
      const std::int64_t round = readings / 2, arrives = 1 - readings % 2;
      ++readings;
      std::int64_t at = readings * second + rank_ * 3600 * second;
      if ((arrives != 0) == (rank_ > 0)) at -= second / 4;
      if (round % 3 == rank_ % 3) at += (arrives != 0 ? -100 : 100) * second * (rank_ + 1);
      return at;
    });
  }
  const int rank_ = world_rank();
  std::unique_ptr<Communicator> lane_ = make_world(make_options());
  Peers peers_{*lane_};
};

TEST_F(ClockOffset, leads_to_rank_0s_clock_whatever_is_late) {
  EXPECT_EQ(offset("host" + std::to_string(rank_)), -rank_ * 3600 * std::int64_t{1'000'000'000});
}

TEST_F(ClockOffset, is_0_on_one_host_and_on_rank_0s) {
  EXPECT_EQ(offset("host"), 0);
  const bool beside_rank_0 = rank_ % 2 == 0;
  const std::int64_t other = offset(beside_rank_0 ? "first" : "second");
  if (beside_rank_0)
    EXPECT_EQ(other, 0);
  else
    EXPECT_NE(other, 0);
}

}  // namespace
}  // namespace shardmark::test::clock_offset_test
