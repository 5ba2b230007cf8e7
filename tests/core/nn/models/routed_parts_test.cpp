// SPDX-License-Identifier: Apache-2.0
// Rule: with learned routing a rank sends each rank the rows of that rank's experts, and receives
// those that the others have for its own. More rows than the plan has room for are an error that
// says which key gives more.
#include <vector>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/nn/models/transformer.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/mixture_sizes.hpp>
#include <tests/core/nn/layers/router_fixture.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::routed_parts_test {
namespace {

constexpr std::int64_t experts = 4, hidden = 8;

struct RoutedParts : KernelTest {
  // Two ranks with 8 tokens each, of which each has one expert: 8 arrive if routing is balanced.
  static TransformerDims dims(double room) {
    ModelSpec m;
    m.family = Family::decoder;
    m.layers = 1, m.hidden = hidden, m.heads = 2, m.kv_heads = 2, m.ffn = 8;
    m.sequence = 8, m.vocab = 16;
    Decoder d = decoder_like(Family::llama);
    d.moe.experts = experts, d.moe.per_token = 1, d.moe.ffn = 4, d.moe.room = room;
    m.decoder = SharedDecoder(std::move(d));
    m.expert_part = {2, 0};
    return transformer_dims(m, 1);
  }
  std::vector<std::int64_t> parts(double room, std::vector<std::int32_t> sent,
                                  std::vector<std::int32_t> received) {
    return transformer_routed_parts(ctx, dims(room), sent.data(), received.data());
  }
};

TEST_F(RoutedParts, AreTheRowsOfEachRanksExperts) {
  const std::vector<std::int64_t> want{3 * hidden, 3 * hidden, 3 * hidden, 5 * hidden};
  EXPECT_EQ(parts(2, {1, 2, 0, 3}, {1, 2, 5, 0}), want);
}

TEST_F(RoutedParts, HaveRoomForAMultipleOfBalancedRoutingAndForAllAtMost) {
  EXPECT_EQ(arrivals_room(dims(1)), 8);
  EXPECT_EQ(arrivals_room(dims(1.4)), 12);
  EXPECT_EQ(arrivals_room(dims(5)), 16);
  EXPECT_NO_THROW(parts(1.4, {4, 4, 0, 0}, {4, 4, 4, 0}));
  expect_says(message_of<DeckError>([&] {
                parts(1.4, {4, 4, 0, 0}, {4, 4, 4, 1});
              }),
              {"13 rows arrive", "1.62 times", "model.expert_room = 1.4", "room for 12"});
}

}  // namespace
}  // namespace shardmark::test::routed_parts_test
