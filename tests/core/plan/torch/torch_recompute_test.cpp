// SPDX-License-Identifier: Apache-2.0
// Rule: activation checkpointing gives legal plans of the schedule `torch` at every stage, in which
// each block runs forward twice.
#include <map>

#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/plan.hpp>

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

}  // namespace
}  // namespace shardmark::test::torch_recompute_test
