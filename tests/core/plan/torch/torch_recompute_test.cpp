// SPDX-License-Identifier: Apache-2.0
// Rule: activation checkpointing gives legal plans of the schedule `torch` at every stage, in which
// each block runs forward twice; and so do frozen modules, at which backward ends.
#include <map>

#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/plan.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::torch_recompute_test {
namespace {

// How often each module runs forward in the first segment of a micro-batch.
std::map<std::string, int> forward_runs(const Program& p) {
  std::map<std::string, int> runs;
  for (const Segment& s : p.segments)
    if (s.kind == SegmentKind::micro) {
      for (const Event& e : s.events)
        if (e.kernel == Kernel::forward) ++runs[p.model.modules[e.module].name];
      break;
    }
  return runs;
}

// How much more often a segment acquires a slot than it releases it.
int left_alive(const Program& p, const Segment& s, std::string_view slot) {
  int more = 0;
  for (const Event& e : s.events)
    if ((e.op == Op::acquire || e.op == Op::release) && p.slots[e.slot].name == slot)
      more += e.op == Op::acquire ? 1 : -1;
  return more;
}

TEST(TorchRecomputation, IsLegalAndRunsBlocksTwice) {
  for (const int stage : {0, 1, 2, 3})
    for (const int world : {1, 2, 3})
      for (const std::int64_t accumulation : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << "stage " << stage << ", ranks " << world);
        Deck deck;
        deck.zero.stage = stage;
        deck.run.schedule = Schedule::torch;
        deck.run.activation_checkpointing = true;
        deck.model.layers = 3;
        deck.model.hidden = 20, deck.model.heads = 5, deck.model.sequence = 17,
        deck.model.vocab = 53;
        const Program p =
            build_program(deck, {world * accumulation, 1, accumulation}, world, world - 1, {});
        ASSERT_NO_THROW(require_legal(check(p)));
        for (const auto& [name, runs] : forward_runs(p))
          EXPECT_EQ(runs, name.starts_with("block") && !name.ends_with("mlp.proj") ? 2 : 1) << name;
      }
}

TEST(TorchFrozen, ModulesInFrontEndBackwardEarlyAndLeaveNothingBehind) {
  const std::vector<std::vector<std::string>> cases{
      {"wte"}, {"wte", "wpe"}, {"wte", "wpe", "block0"}, {"wte", "wpe", "block0.mlp"}};
  for (const std::vector<std::string>& frozen : cases)
    for (const int stage : {0, 2, 3})
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(::testing::Message() << frozen.back() << ", stage " << stage);
        Deck deck = gpt2_deck(stage, 3);
        deck.run.schedule = Schedule::torch;
        deck.run.activation_checkpointing = recompute;
        deck.torch.frozen = frozen;
        const Program p = build_program(deck, {4, 1, 2}, 2, 0, {});
        ASSERT_NO_THROW(require_legal(check(p)));
        for (const Segment& s : p.segments) EXPECT_EQ(left_alive(p, s, "dx"), 0) << s.name;
      }
}

}  // namespace
}  // namespace shardmark::test::torch_recompute_test
