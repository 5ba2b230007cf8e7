// SPDX-License-Identifier: Apache-2.0
// Rules of stage 0, where the engine itself sums gradients after the last micro-batch: it closes a
// bucket that holds more than 500 million elements, whatever the config's bucket size, and sends
// nothing before.
#include <gtest/gtest.h>

#include <tests/support/programs.hpp>

namespace shardmark::test::engine_buckets_test {
namespace {

Deck deck_of(std::int64_t tensor, int tensors = 4) {
  Deck deck;
  deck.zero.stage = 0;
  deck.run.compute = Compute::none;
  deck.run.schedule = Schedule::deepspeed;
  deck.model.family = Family::list;
  for (int i = 0; i < tensors; ++i)
    deck.model.modules.push_back({"m" + std::to_string(i), {tensor}});
  return deck;
}

// The gradients that one step sums, message by message.
std::vector<std::int64_t> sent(const Deck& deck, std::int64_t accumulation = 1) {
  const Program p = program(deck, 2, 0, accumulation);
  std::vector<std::int64_t> elems;
  for (const int segment : segments_of(p.steps.back(), false))
    for (const Event& e : p.segments[static_cast<std::size_t>(segment)].events)
      if (e.op == Op::all_reduce && e.elems > 1) elems.push_back(e.elems);
  return elems;
}

TEST(EngineBuckets, CloseAfter500MillionElements) {
  using Elems = std::vector<std::int64_t>;
  EXPECT_EQ(sent(deck_of(250'000'000)), (Elems{750'000'000, 250'000'000}));
  EXPECT_EQ(sent(deck_of(250'000'001)), (Elems{500'000'002, 500'000'002}));
  EXPECT_EQ(sent(deck_of(500'000'001, 2)), (Elems{500'000'001, 500'000'001}));
}

TEST(EngineBuckets, DoNotFollowTheBucketSizeOfTheConfig) {
  Deck deck = deck_of(1000);
  deck.zero.knobs.reduce_bucket_size = 1500;
  EXPECT_EQ(sent(deck), std::vector<std::int64_t>{4000});
}

TEST(EngineBuckets, AreSentOncePerStep) {
  EXPECT_EQ(sent(deck_of(1000), 5), std::vector<std::int64_t>{4000});
}

}  // namespace
}  // namespace shardmark::test::engine_buckets_test
