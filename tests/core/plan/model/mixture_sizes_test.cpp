// SPDX-License-Identifier: Apache-2.0
// Rule: among ranks that divide experts, what one plans to send another is what that one plans to
// receive, whether they also divide layers, and the ranks that divide a layer send each pair once.
#include <utility>

#include <gtest/gtest.h>

#include <core/plan/model/mixture_sizes.hpp>

namespace shardmark::test::mixture_sizes_test {
namespace {

// 30 pairs of 8 experts: neither experts nor lanes have equal numbers of them.
TransformerDims dims(std::int64_t tensor, std::int64_t expert, std::int64_t rank) {
  Decoder decoder;
  decoder.moe.experts = 8, decoder.moe.per_token = 2;
  decoder.moe.routing = Routing::balanced;
  TransformerDims d;
  d.micro_batch = 3, d.sequence = 5;
  d.part = {tensor, rank % tensor};
  d.expert_part = {expert, rank % expert};
  d.decoder = SharedDecoder(std::move(decoder));
  return d;
}

struct Degrees {
  std::int64_t tensor, expert;
};
class MixtureSizes : public ::testing::TestWithParam<Degrees> {};
INSTANTIATE_TEST_SUITE_P(Blocks, MixtureSizes,
                         ::testing::Values(Degrees{1, 2}, Degrees{1, 8}, Degrees{2, 2},
                                           Degrees{2, 4}, Degrees{2, 8}, Degrees{4, 2},
                                           Degrees{4, 4}, Degrees{4, 8}));

constexpr std::int64_t world = 8;

TEST_P(MixtureSizes, WhatIsSentIsReceived) {
  const auto [tensor, expert] = GetParam();
  for (std::int64_t to = 0; to < world; ++to)
    for (std::int64_t place = 0; place < expert; ++place) {
      const std::int64_t from = to - to % expert + place;
      EXPECT_EQ(pairs_from(dims(tensor, expert, to), place),
                pairs_to(dims(tensor, expert, from), from % tensor, to % expert))
          << "from rank " << from << " to rank " << to;
    }
}

TEST_P(MixtureSizes, LanesSendEachPairOnce) {
  const auto [tensor, expert] = GetParam();
  std::int64_t sent = 0;
  for (std::int64_t lane = 0; lane < tensor; ++lane)
    for (std::int64_t place = 0; place < expert; ++place)
      sent += pairs_to(dims(tensor, expert, lane), lane, place);
  EXPECT_EQ(sent, pairs_of(dims(tensor, expert, 0)));
}

}  // namespace
}  // namespace shardmark::test::mixture_sizes_test
