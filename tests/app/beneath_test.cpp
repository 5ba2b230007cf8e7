// SPDX-License-Identifier: Apache-2.0
// Rule: what a step asks of MPI, counted by PMPI beneath the communicator, is what its plan's
// collectives become by the table of comm/mpi_calls, neither more nor fewer.
#include <gtest/gtest.h>

#include <comm/mpi_calls.hpp>
#include <tests/app/training.hpp>
#include <tests/comm/mpi_counter.hpp>

namespace shardmark {
namespace {

using testing::small_deck;
using testing::Training;

std::map<std::string, std::int64_t> expected_calls(const Program& p, const MpiOptions& options) {
  std::map<std::string, std::int64_t> calls;
  for (SegmentKind kind : step_segments(p.batch.accumulation))
    for (const Event& e : p.find(kind)->events) {
      if (!is_collective(e.op)) continue;
      Collective c;
      c.op = e.op, c.dtype = e.dtype, c.reduction = e.reduction, c.root = e.root, c.elems = e.elems;
      for (const auto& [name, count] : mpi_calls(c, p.world, options)) calls[name] += count;
    }
  return calls;
}

TEST(Beneath, AStepMakesTheMpiCallsOfItsPlan) {
  for (int stage : {0, 1, 2, 3})
    for (std::int64_t accumulation : {1, 3})
      for (Reductions reductions : {Reductions::native, Reductions::ordered}) {
        int world = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &world);
        Deck deck = small_deck(stage, 2 * world * accumulation, accumulation);
        deck.run.reductions = reductions;
        Training t(deck, MPI_COMM_WORLD);
        const MpiOptions options = testing::mpi_options(reductions);
        testing::reset_mpi_counts();
        t.init();
        EXPECT_EQ(testing::mpi_counts().size(), 0U) << "start-up communicates";
        t.bare_step();
        EXPECT_EQ(testing::mpi_counts(), expected_calls(t.program(), options))
            << "stage " << stage << ", accumulation " << accumulation << ", "
            << to_string(reductions);
      }
}

}  // namespace
}  // namespace shardmark
