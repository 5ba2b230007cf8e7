// SPDX-License-Identifier: Apache-2.0
// Rule: the MPI calls of a step, counted by PMPI beneath the communicator, are exactly those that
// the table of comm/mpi/mpi_calls gives for the plan's collectives, and they carry exactly the
// elements and bytes of these collectives.
#include <gtest/gtest.h>

#include <comm/mpi/mpi_calls.hpp>
#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/programs.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::mpi_calls_of_a_step_test {
namespace {

// What the collectives of some segments cost beneath the communicator, by MPI function.
struct MpiCost {
  std::map<std::string, std::int64_t> calls;
  std::map<std::string, MpiData> data;
};

MpiCost expected(const Program& p, const std::vector<int>& run, const CommOptions& options) {
  MpiCost sum;
  for (int segment : run)
    for (const Event& e : p.segments[segment].events) {
      if (!is_collective(e.op)) continue;
      Collective c;
      c.op = e.op, c.dtype = e.dtype, c.reduction = e.reduction, c.root = e.root, c.elems = e.elems;
      for (const auto& [name, count] : mpi_calls(c, p.world, options)) {
        sum.calls[name] += count;
        sum.data[name].elems += e.elems;
        sum.data[name].bytes += e.elems * dtype_bytes(e.dtype);
      }
    }
  return sum;
}

void expect_counted(const MpiCost& e) {
  EXPECT_EQ(mpi_counts(), e.calls);
  for (const auto& [name, carried] : e.data) {
    EXPECT_EQ(mpi_data()[name].elems, carried.elems) << name;
    EXPECT_EQ(mpi_data()[name].bytes, carried.bytes) << name;
  }
}

TEST(Beneath, AStepMakesTheMpiCallsOfItsPlan) {
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (std::int64_t accumulation : {1, 3})
        for (const auto& [dtype, reductions] : {std::pair{Dtype::fp32, Reductions::native},
                                                std::pair{Dtype::fp32, Reductions::ordered},
                                                std::pair{Dtype::bf16, Reductions::ordered}}) {
          SCOPED_TRACE(std::string(to_string(schedule)) + ", stage " + std::to_string(stage) +
                       ", accumulation " + std::to_string(accumulation) + ", " +
                       std::string(to_string(reductions)) + ", " + std::string(to_string(dtype)));
          int world = 0;
          MPI_Comm_size(MPI_COMM_WORLD, &world);
          Deck deck = small_deck(stage, 2 * world * accumulation, accumulation);
          deck.run.reductions = reductions;
          deck.run.schedule = schedule;
          deck.comm.backend = Backend::mpi;
          if (dtype != Dtype::fp32) set_precision(deck, dtype, dtype);
          Training t(deck, MPI_COMM_WORLD);
          const Program& p = t.program();
          const CommOptions options = mpi_options(reductions);
          reset_mpi_counts();
          t.init();
          expect_counted(expected(p, {0}, options));
          int at = 0;
          for (int s = 0; s < 3; ++s) {
            reset_mpi_counts();
            SCOPED_TRACE("step " + std::to_string(s));
            t.bare_step();
            expect_counted(expected(p, segments_of(p.steps[at], false), options));
            at = p.steps[at].after_update;
          }
        }
}

}  // namespace
}  // namespace shardmark::test::mpi_calls_of_a_step_test
