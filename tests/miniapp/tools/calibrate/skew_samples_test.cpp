// SPDX-License-Identifier: Apache-2.0
// Rules: ranks that always differ are apart by a part of their work, however long it is; ranks that
// differ at random are apart by a smaller part of longer work; a rank alone has none to wait for.
#include <cmath>

#include <gtest/gtest.h>

#include <core/random.hpp>
#include <miniapp/tools/calibrate/smoothing.hpp>

namespace shardmark::test::skew_samples_test {
namespace {

constexpr std::size_t kernels = 4096;
constexpr double kernel_s = 1e-3;

// The times of `ranks` ranks, rank by rank, by a function of rank and kernel.
template<class F>
RankSkew skew_of(int ranks, F seconds) {
  std::vector<double> all;
  for (int r = 0; r < ranks; ++r)
    for (std::size_t k = 0; k < kernels; ++k) all.push_back(seconds(r, k));
  SkewSamples samples;
  samples.add(all, ranks);
  return samples.result();
}

double part(const TimePoint& p) {
  return p.seconds / p.size;
}

TEST(SkewSamples, ASlowerRankIsApartByAPartOfItsWork) {
  const RankSkew skew =
      skew_of(2, [](int rank, std::size_t) { return (1 + 0.2 * rank) * kernel_s; });
  EXPECT_EQ(skew.ranks, 2);
  ASSERT_GT(skew.points.size(), 6u);
  for (const TimePoint& p : skew.points) EXPECT_NEAR(part(p), 0.1 / 1.1, 1e-9) << p.size;
}

TEST(SkewSamples, RandomDifferencesOfManyKernelsCancel) {
  std::uint64_t drawn = 1;
  const RankSkew skew = skew_of(4, [&](int, std::size_t) {
    drawn = splitmix64(drawn);
    return (0.8 + 0.4 * static_cast<double>(drawn >> 11) / (1LL << 53)) * kernel_s;
  });
  EXPECT_EQ(skew.ranks, 4);
  ASSERT_GT(skew.points.size(), 6u);
  // The largest of 4 uniform draws from 0.8 to 1.2 lies 0.6 of the half width above 1 on average.
  EXPECT_NEAR(part(skew.points.front()), 0.12, 0.01);
  const TimePoint &first = skew.points.front(), &last = skew.points.back();
  EXPECT_NEAR(part(last) / part(first), std::sqrt(first.size / last.size), 0.05);
}

TEST(SkewSamples, ARankThatLostItsCoreOnceDoesNotCount) {
  const auto skew_with = [](double lost_s) {
    return skew_of(2, [lost_s](int rank, std::size_t k) {
      return (1 + 0.2 * rank) * kernel_s + (rank == 1 && k == 7 ? lost_s : 0);
    });
  };
  EXPECT_NEAR(skew_with(1).points.front().seconds, skew_with(0).points.front().seconds, 1e-12);
}

TEST(SkewSamples, OneRankIsNotApart) {
  const RankSkew skew = skew_of(1, [](int, std::size_t) { return kernel_s; });
  EXPECT_EQ(skew.ranks, 0);
  EXPECT_TRUE(skew.points.empty());
}

}  // namespace
}  // namespace shardmark::test::skew_samples_test
