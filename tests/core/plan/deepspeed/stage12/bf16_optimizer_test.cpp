// SPDX-License-Identifier: Apache-2.0
// Rule: BF16_Optimizer keeps the 16-bit gradients until the step. With `immediate_grad_update` it
// drops each one once it is added to the fp32 gradient, so that none is alive after backward.
#include <gtest/gtest.h>

#include <core/plan/interpret/check.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::bf16_optimizer_test {
namespace {

constexpr std::int64_t matrix = 1024 * 512;  // two of these are 1 048 576 parameters

Deck deck_of(bool immediate) {
  Deck deck;
  deck.zero.stage = 1;
  deck.zero.precision.model = deck.zero.precision.comm = Dtype::bf16;
  deck.zero.knobs.immediate_grad_update = immediate;
  deck.run.compute = Compute::none;
  deck.run.schedule = Schedule::deepspeed;
  deck.model.family = Family::list;
  deck.model.modules = {{"a", {matrix}}, {"b", {matrix}}};
  return deck;
}

std::int64_t bytes_of_16_bit_gradients(const Program& p, const EndState& state) {
  std::int64_t bytes = 0;
  for (const int slot : state.alive)
    if (p.slots[slot].category == Category::grad && p.slots[slot].dtype == Dtype::bf16)
      bytes += alloc_bytes(p.slots[slot]);
  return bytes;
}

void expect_after_backward(bool immediate, std::int64_t accumulation, std::int64_t bytes) {
  for (const int world : {1, 4}) {
    const Program p = program(deck_of(immediate), world, 0, accumulation);
    require_legal(check(p));
    int micros = 0;
    for (const Segment& s : p.segments)
      if (s.kind == SegmentKind::micro) {
        ++micros;
        EXPECT_EQ(bytes_of_16_bit_gradients(p, s.exit), bytes) << s.name;
      }
    EXPECT_GE(micros, 1);
  }
}

TEST(Bf16Optimizer, KeepsGradientsUntilTheStep) {
  expect_after_backward(false, 1, 2'097'152);
  expect_after_backward(false, 3, 2'097'152);
}

TEST(Bf16Optimizer, DropsGradientsAtOnceWithImmediateGradUpdate) {
  expect_after_backward(true, 1, 0);
  expect_after_backward(true, 3, 0);
}

}  // namespace
}  // namespace shardmark::test::bf16_optimizer_test
