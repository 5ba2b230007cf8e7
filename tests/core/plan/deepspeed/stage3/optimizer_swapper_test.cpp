// SPDX-License-Identifier: Apache-2.0
// Rules: of the buffer through which gradients pass from files, an update reads nothing that an
// earlier gradient left there, padding included. With pipeline_read the states of the next
// sub-group are read before the update of the current one, and not before that without.
#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include <core/plan/kernels.hpp>
#include <core/plan/write/state_slots.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::optimizer_swapper_test {
namespace {

// Counts the updates from buffers, and the elements that each reads and nobody has written since
// the update before.
struct Reads {
  int updates = 0;
  std::int64_t stale = 0;
};

Reads reads_of(const Program& p) {
  Reads reads;
  std::map<int, std::vector<bool>> written;  // by slot
  for (const Event& e : p.segments[static_cast<std::size_t>(p.steps[0].update)].events) {
    if (e.kernel == Kernel::adamw) {
      const Operand& grad = operand_of(p, e, operand::upd_grad);
      const Slot& slot = slot_of(p, e, operand::upd_grad);
      if (!slot.name.starts_with("swap.")) continue;
      std::vector<bool>& fresh = written[grad.slot];
      fresh.resize(static_cast<std::size_t>(slot.elems));
      for (std::int64_t i = grad.offset; i < grad.offset + grad.elems; ++i)
        reads.stale += fresh[static_cast<std::size_t>(i)] ? 0 : 1;
      ++reads.updates;
      fresh.clear();
      continue;
    }
    for (int i = 0; i < e.operands.count; ++i) {
      const Operand& o = operand_of(p, e, i);
      if (!o.writes) continue;
      std::vector<bool>& fresh = written[o.slot];
      fresh.resize(static_cast<std::size_t>(slot_of(p, e, i).elems));
      std::fill_n(fresh.begin() + o.offset, o.elems, true);
    }
  }
  return reads;
}

TEST(OptimizerSwapper, EachUpdateReadsItsOwnGradientAlone) {
  for (const bool pipelined : {false, true})
    for (const std::int64_t sub_group : {700, 100'000})
      for (const int world : {1, 2, 3, 5})
        for (int rank = 0; rank < world; ++rank) {
          Deck deck = deepspeed_deck(3);
          deck.run.compute = Compute::none;
          put_in_files(deck, true, false);
          deck.zero.offload_optimizer.pipeline_read = pipelined;
          deck.zero.knobs.sub_group_size = sub_group;
          const Reads reads = reads_of(program(deck, world, rank));
          EXPECT_GT(reads.updates, 0);
          EXPECT_EQ(reads.stale, 0) << "rank " << rank << " of " << world;
        }
}

// Whether a slot is the file in which a sub-group has a state.
bool is_state_file(const Slot& slot, State state) {
  return slot.tier == Tier::nvme && slot.category == category_of(state);
}

// For each update from buffers, how many files of a state were read before it.
std::vector<int> files_read_before_updates(const Program& p, State state) {
  std::vector<int> before;
  int files = 0;
  for (const Event& e : p.segments[static_cast<std::size_t>(p.steps[0].update)].events) {
    if (e.kernel == Kernel::adamw) {
      if (slot_of(p, e, operand::upd_grad).name.starts_with("swap.")) before.push_back(files);
      continue;
    }
    for (int i = 0; i < e.operands.count; ++i)
      if (operand_of(p, e, i).reads && is_state_file(slot_of(p, e, i), state)) ++files;
  }
  return before;
}

TEST(OptimizerSwapper, PipelineReadReadsOneSubGroupAhead) {
  for (const bool reads_ahead : {false, true})
    for (const bool writes_behind : {false, true})
      for (const State state : {State::master, State::momentum, State::variance}) {
        Deck deck = deepspeed_deck(3);
        deck.run.compute = Compute::none;
        put_in_files(deck, true, false);
        deck.zero.offload_optimizer.pipeline_read = reads_ahead;
        deck.zero.offload_optimizer.pipeline_write = writes_behind;
        deck.zero.knobs.sub_group_size = 700;
        const std::vector<int> before = files_read_before_updates(program(deck, 2, 0), state);
        const int groups = static_cast<int>(before.size());
        ASSERT_GT(groups, 2);
        for (int i = 0; i < groups; ++i)
          EXPECT_EQ(before[static_cast<std::size_t>(i)],
                    reads_ahead ? std::min(i + 2, groups) : i + 1)
              << to_string(state) << ", update " << i << " of " << groups
              << (reads_ahead ? ", ahead" : "");
      }
}

}  // namespace
}  // namespace shardmark::test::optimizer_swapper_test
