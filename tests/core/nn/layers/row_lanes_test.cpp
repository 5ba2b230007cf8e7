// SPDX-License-Identifier: Apache-2.0
// Rule: of each expert's pairs a lane has every second, third ... one, in the order of experts, and
// together the lanes have each pair once. What a lane sends and says is that of its pairs; places
// without a pair are zero. What comes back to the pairs of one lane is added up per row.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/layers/divided_experts.hpp>
#include <tests/core/nn/layers/router_fixture.hpp>

namespace shardmark::test::row_lanes_test {
namespace {

constexpr std::int64_t rows = 5, experts = 3, per_token = 2, pairs = rows * per_token, columns = 4;

struct RowLanesTest : RouterTest {
  // Pair p has expert p mod 3: experts 0 to 2 have 4, 3 and 3 pairs.
  RowLanesTest() : RouterTest(rows, experts, per_token) {
    MoeSpec moe;
    moe.experts = experts, moe.per_token = per_token;
    moe.normalised = true;
    moe.routing = Routing::balanced;
    for (std::int64_t i = 0; i < rows * experts; ++i)
      probabilities[i] = 0.25f * static_cast<float>(i % 7);
    choose_experts(ctx, moe, routes());
  }
  PairLanes lanes(std::int64_t count, std::int64_t own, std::int64_t rows_of_a_lane) {
    const PairLanes l{count, own, rows_of_a_lane, lane_sources.data()};
    place_in_lanes(ctx, routes(), l);
    return l;
  }

  Buffer<std::int32_t> lane_sources{3 * pairs};
};

TEST_F(RowLanesTest, TakeThePairsOfEachExpertByTurns) {
  // 4, 3 and 3 pairs in two lanes: 2 + 2 + 2 and 2 + 1 + 1
  lanes(2, 0, 6);
  const std::vector<std::int32_t> want{0, 6, 1, 7, 2, 8, 3, 9, 4, 5, -1, -1};
  EXPECT_TRUE(std::equal(want.begin(), want.end(), lane_sources.data()));
  for (std::int32_t p = 0; p < pairs; ++p) EXPECT_EQ(lane_sources[places[p]], p);
  for (const std::int64_t own : {0, 1}) {
    Buffer<std::int32_t> counts(experts);
    count_rows(ctx, routes(), lanes(2, own, 6), counts.data());
    const std::vector<std::int32_t> has =
        own == 0 ? std::vector<std::int32_t>{2, 2, 2} : std::vector<std::int32_t>{2, 1, 1};
    EXPECT_TRUE(std::equal(has.begin(), has.end(), counts.data()));
  }
}

TEST_F(RowLanesTest, SendTheRowsOfTheirPairsAndSayWhichTheyAre) {
  const PairLanes own = lanes(2, 1, 6);
  Buffer<float> x(rows * columns), home(12 * columns), said(12);
  Buffer<std::int64_t> tokens(12), choices(12), count(2);
  for (std::int64_t i = 0; i < rows * columns; ++i) x[i] = static_cast<float>(i);
  std::fill_n(home.data(), 12 * columns, -1.0f);
  collect_lane(ctx, routes(), own, columns, {Dtype::fp32, x.data()}, {Dtype::fp32, home.data()},
               {tokens.data(), choices.data(), {Dtype::fp32, said.data()}, count.data()});
  EXPECT_EQ(count[1], 4);
  for (std::int64_t place = 6; place < 12; ++place) {
    const std::int32_t pair = lane_sources[place];
    EXPECT_EQ(home[place * columns + 1], pair < 0 ? 0 : x[pair / 2 * columns + 1]) << place;
    EXPECT_EQ(said[place], pair < 0 ? 0 : weights[pair]) << place;
    if (pair < 0) continue;
    EXPECT_EQ(tokens[place], pair / 2);
    EXPECT_EQ(choices[place], pair % 2);
  }
  EXPECT_EQ(home[0], -1) << "the other lane is not this rank's";
}

// The gradients of all lanes together are those of an undivided mixture.
TEST_F(RowLanesTest, ShareTheGradientsOfWeightsAndRows) {
  Buffer<float> dy(rows * columns), returned(12 * columns), home(12 * columns), dweights(12);
  for (std::int64_t i = 0; i < rows * columns; ++i) dy[i] = 0.5f * static_cast<float>(i % 5) - 1;
  for (std::int64_t i = 0; i < 12 * columns; ++i) returned[i] = static_cast<float>(i % 11);
  std::vector<float> dx(rows * columns), of_pairs(pairs);
  for (const std::int64_t own : {0, 1}) {
    const PairLanes l = lanes(2, own, 6);
    weigh_gradients(ctx, routes(), l, columns, {Dtype::fp32, dy.data()},
                    {Dtype::fp32, returned.data()}, {Dtype::fp32, home.data()},
                    {Dtype::fp32, dweights.data()});
    Buffer<float> part(rows * columns), of_own(pairs);
    combine_lane(ctx, routes(), l, columns, {Dtype::fp32, home.data()},
                 {Dtype::fp32, dweights.data()}, {Dtype::fp32, part.data()}, false, of_own.data());
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += part[static_cast<std::int64_t>(i)];
    for (std::size_t p = 0; p < of_pairs.size(); ++p)
      of_pairs[p] += of_own[static_cast<std::int64_t>(p)];
  }
  for (std::int64_t p = 0; p < pairs; ++p) {
    float dot = 0;
    for (std::int64_t j = 0; j < columns; ++j)
      dot += dy[p / 2 * columns + j] * returned[places[p] * columns + j];
    EXPECT_FLOAT_EQ(of_pairs[static_cast<std::size_t>(p)], dot);
  }
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t row = i / columns;  // its rows' weights add up to 1
    EXPECT_NEAR(dx[static_cast<std::size_t>(i)], dy[i], 1e-6) << row;
  }
}

}  // namespace
}  // namespace shardmark::test::row_lanes_test
