// SPDX-License-Identifier: Apache-2.0
// Rule: at a limit that is reached exactly, a plan does what DeepSpeed does. Buckets, messages and
// persistent parameters may be as large as their limit (`>`); prefetching, sub-groups and the
// distance of reuse stop at it (`>=`).
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <core/plan/plan.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::exact_limits_test {
namespace {

// Of each collective and each optimizer event: the elements, and where a collective goes.
using Work = std::vector<std::tuple<Op, int, std::int64_t>>;

Work work_of(const Deck& deck, int world) {
  const Program p = build_program(deck, {world, 1, 1}, world, 0, {});
  Work all;
  for (const Segment& s : p.segments)
    for (const Event& e : s.events) {
      if (is_collective(e.op)) all.emplace_back(e.op, e.root, e.elems);
      if (e.kernel == Kernel::adamw) all.emplace_back(e.op, -1, operand_of(p, e, 0).elems);
    }
  return all;
}

Deck deck_of(int stage, const std::vector<std::int64_t>& tensors) {
  Deck deck;
  deck.zero.stage = stage;
  deck.zero.knobs.overlap_comm = stage == 3;
  deck.zero.knobs.param_persistence_threshold = 0;
  deck.run.compute = Compute::none;
  deck.run.schedule = Schedule::deepspeed;
  deck.model.family = Family::list;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    deck.model.modules.push_back({"m" + std::to_string(i), {tensors[i]}});
  return deck;
}

// All sums of tensors and parts of ranks are multiples of 8, so a plan may change only from the
// last limit below such a multiple to the multiple itself (`reaches`), or from the multiple to the
// next limit. It does so often.
void expect_changes(Deck deck, std::int64_t ZeroKnobs::*limit, bool reaches, int world) {
  int changes = 0;
  deck.zero.knobs.*limit = 1;
  Work before = work_of(deck, world);
  for (std::int64_t at = 2; at <= 340; ++at) {
    deck.zero.knobs.*limit = at;
    Work now = work_of(deck, world);
    if (now == before) continue;
    ++changes;
    EXPECT_EQ(at % 8, reaches ? 0 : 1) << "the plan changes at the limit " << at;
    before = std::move(now);
  }
  EXPECT_GE(changes, 2);
}

const std::vector<std::int64_t> tensors{64, 40, 64, 40, 64, 48};

TEST(ExactLimits, OfBuckets) {
  for (const int stage : {1, 2, 3})
    for (const int world : {1, 2})
      for (const bool contiguous : {true, false})
        for (const bool scatter : {true, false}) {
          SCOPED_TRACE(::testing::Message()
                       << "stage " << stage << ", ranks " << world << ", contiguous_gradients "
                       << contiguous << ", reduce_scatter " << scatter);
          Deck deck = deck_of(stage, tensors);
          deck.zero.knobs.contiguous_gradients = contiguous;
          deck.zero.knobs.reduce_scatter = scatter;
          expect_changes(deck, &ZeroKnobs::reduce_bucket_size, true, world);
        }
}

// A tensor that is larger than the bucket travels in messages of whole parts of ranks.
TEST(ExactLimits, OfMessages) {
  for (const int stage : {1, 2})
    for (const int world : {3, 4})
      expect_changes(deck_of(stage, {80 * world}), &ZeroKnobs::reduce_bucket_size, true, world);
}

TEST(ExactLimits, OfPersistence) {
  expect_changes(deck_of(3, tensors), &ZeroKnobs::param_persistence_threshold, true, 2);
  Deck deck = deck_of(3, tensors);
  deck.zero.knobs.param_persistence_threshold = 1000;
  expect_changes(deck, &ZeroKnobs::model_persistence_threshold, true, 2);
  // It bounds the sum of all tensors that persist, here 320 elements.
  deck.zero.knobs.model_persistence_threshold = 319;
  const Work all_but_the_last = work_of(deck, 2);
  deck.zero.knobs.model_persistence_threshold = 320;
  EXPECT_NE(work_of(deck, 2), all_but_the_last);
}

TEST(ExactLimits, OfFetching) {
  Deck deck = deck_of(3, tensors);
  deck.zero.knobs.max_reuse_distance = 0;
  expect_changes(deck, &ZeroKnobs::prefetch_bucket_size, false, 2);
  deck.zero.knobs.prefetch_bucket_size = 1000;
  expect_changes(deck, &ZeroKnobs::max_live_parameters, false, 2);
  deck.zero.knobs.prefetch_bucket_size = 0;
  expect_changes(deck, &ZeroKnobs::max_reuse_distance, false, 2);
}

TEST(ExactLimits, OfSubGroups) {
  expect_changes(deck_of(3, tensors), &ZeroKnobs::sub_group_size, false, 1);
}

// On their way to files, gradients fill each buffer of the host to its last element.
TEST(ExactLimits, OfSwapBuffers) {
  const auto buffers_of = [](const std::vector<std::int64_t>& sizes) {
    Deck deck = deck_of(3, sizes);
    put_in_files(deck, true, false);
    deck.zero.knobs.sub_group_size = 150;
    const Program p = build_program(deck, {1, 1, 1}, 1, 0, {});
    std::vector<std::string> names;
    for (const Event& e : p.segments[static_cast<std::size_t>(p.steps[0].micros[0])].events)
      if (e.op == Op::copy && slot_of(p, e, 0).tier == Tier::device &&
          slot_of(p, e, 1).name.starts_with("swap."))
        names.push_back(slot_of(p, e, 1).name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(buffers_of({96, 64}), (Names{"swap.0", "swap.0"}));
  EXPECT_EQ(buffers_of({96, 64, 64}), (Names{"swap.0", "swap.0", "swap.1"}));
}

}  // namespace
}  // namespace shardmark::test::exact_limits_test
