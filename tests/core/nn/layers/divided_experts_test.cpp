// SPDX-License-Identifier: Apache-2.0
// Rule: rows that arrive from several ranks, those of each rank sorted by experts, are sorted by
// experts and then by ranks, whatever the counts; the way back gives them their places again. The
// gradients of weights and rows are those of a weighted sum.
#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/layers/divided_experts.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::divided_experts_test {
namespace {

constexpr std::int64_t ranks = 3, experts = 2, columns = 5;

struct DividedExpertsTest : KernelTest {
  template<class T>
  static Buffer<T> made(std::initializer_list<T> values) {
    Buffer<T> b(static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), b.data());
    return b;
  }
  template<class T>
  static void expect_equal(const Buffer<T>& have, std::initializer_list<T> want) {
    EXPECT_TRUE(std::equal(want.begin(), want.end(), have.data()));
  }
};

TEST_F(DividedExpertsTest, SortsRowsByExpertsAndThenByRanks) {
  for (const std::vector<std::int32_t>& counts :
       {std::vector<std::int32_t>{2, 1, 0, 3, 1, 1}, {0, 0, 0, 4, 0, 0}, {1, 0, 1, 0, 1, 0}}) {
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), 0);
    Buffer<std::int32_t> given(ranks * experts), places(rows), starts(experts + 1);
    std::copy(counts.begin(), counts.end(), given.data());
    const ExpertArrivals by{ranks, experts, rows, places.data(), starts.data()};
    arrange_arrivals(ctx, by, given.data());
    // A row's value says where it came from: expert, rank, number.
    Buffer<float> arrived(rows * columns), sorted(rows * columns), again(rows * columns);
    std::vector<float> want;
    std::int64_t at = 0;
    for (std::int64_t r = 0; r < ranks; ++r)
      for (std::int64_t e = 0; e < experts; ++e)
        for (std::int32_t i = 0; i < counts[static_cast<std::size_t>(r * experts + e)]; ++i) {
          const auto value = static_cast<float>(100 * e + 10 * r + i);
          want.push_back(value);
          for (std::int64_t j = 0; j < columns; ++j)
            arrived[at++] = value + 0.125f * static_cast<float>(j);
        }
    std::sort(want.begin(), want.end());
    sort_arrivals(ctx, by, columns, {Dtype::fp32, arrived.data()}, {Dtype::fp32, sorted.data()});
    unsort_arrivals(ctx, by, columns, {Dtype::fp32, sorted.data()}, {Dtype::fp32, again.data()});
    EXPECT_EQ(starts[experts], rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      EXPECT_EQ(sorted[i * columns], want[static_cast<std::size_t>(i)]);
      EXPECT_EQ(sorted[i * columns + 4], want[static_cast<std::size_t>(i)] + 0.5f);
      EXPECT_EQ(sorted[i * columns] >= 100, i >= starts[1]);
    }
    for (std::int64_t i = 0; i < rows * columns; ++i) EXPECT_EQ(again[i], arrived[i]);
  }
}

TEST_F(DividedExpertsTest, CountsRowsAndWeighsGradients) {
  // Two rows with two experts each, of three: row 0 has 2 and 0, row 1 has 0 and 1.
  const Buffer<std::int32_t> sources = made<std::int32_t>({1, 2, 3, 0});
  const Buffer<std::int32_t> starts = made<std::int32_t>({0, 2, 3, 4});
  const Buffer<float> weights = made<float>({0.25f, 0.5f, 2, 4});
  const Routes by{
      2, 3, 2, nullptr, weights.data(), nullptr, nullptr, sources.data(), starts.data()};
  Buffer<std::int32_t> counts(3);
  PairLanes one;
  one.places = 4;
  count_rows(ctx, by, one, counts.data());
  const Buffer<float> dy = made<float>({1, 2, 3, 5}),
                      returned = made<float>({1, 1, 2, 0, 0, 1, 1, 3});
  Buffer<float> sorted(8), dweights(4);
  weigh_gradients(ctx, by, one, 2, {Dtype::fp32, dy.data()}, {Dtype::fp32, returned.data()},
                  {Dtype::fp32, sorted.data()}, {Dtype::fp32, dweights.data()});
  expect_equal<std::int32_t>(counts, {2, 1, 1});
  expect_equal<float>(sorted, {0.5f, 1, 6, 10, 12, 20, 0.25f, 0.5f});
  expect_equal<float>(dweights, {7, 3, 6, 5});
}

}  // namespace
}  // namespace shardmark::test::divided_experts_test
