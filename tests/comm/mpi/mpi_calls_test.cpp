// SPDX-License-Identifier: Apache-2.0
// The MPI calls of each collective, counted through PMPI, are exactly those that mpi_calls() lists,
// and the calls of each function carry every element of the collective once. The back-end `shm`
// makes none.
#include <gtest/gtest.h>

#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::mpi_calls_test {
namespace {

TEST(MpiCalls, are_those_that_the_table_lists) {
  const int n = world_size(), rank = world_rank();
  std::map<std::string, std::int64_t> seen;
  for (Reductions reductions : {Reductions::native, Reductions::ordered})
    for (std::int64_t piece_bytes : {std::int64_t{64}, std::int64_t{1} << 20})
      for (std::int64_t cap_bytes : {std::int64_t{8 * n}, std::int64_t{64} << 20}) {
        CommOptions options = make_options(reductions);
        options.mpi.piece_bytes = piece_bytes;
        options.mpi.gather_bytes = 8 * piece_bytes;
        options.mpi.staging_cap_bytes = cap_bytes;
        const auto comm = make_world(options);
        for (Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                      Op::all_to_all, Op::barrier})
          for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::int64})
            for (std::int64_t k : {0, 1, 50}) {
              Array data(dtype, k * n), other(dtype, k * n);
              Collective c;
              c.op = op, c.dtype = dtype, c.elems = k * n, c.root = n - 1;
              c.reduction = is_reduction(op) ? Reduction::average : Reduction::none;
              c.send = c.recv = data.at(0);
              if (op == Op::all_gather) c.send = data.at(rank * k);
              if (op == Op::reduce_scatter) c.recv = data.at(rank * k);
              if (op == Op::all_to_all) c.recv = other.at(0);
              const auto scratch = bring_scratch(c, n, options);
              reset_mpi_counts();
              run(*comm, c);
              ASSERT_EQ(mpi_counts(), mpi_calls(c, n, options))
                  << to_string(op) << " " << to_string(dtype) << " x " << c.elems << " "
                  << to_string(reductions) << ", pieces of " << piece_bytes;
              for (const auto& [name, carried] : mpi_data()) {
                const std::int64_t elems = op == Op::barrier ? 0 : c.elems;
                EXPECT_EQ(carried, (MpiData{elems, elems * dtype_bytes(dtype)}))
                    << name << " of " << to_string(op) << " " << to_string(dtype) << " x "
                    << c.elems << ": " << carried.elems << " elements, " << carried.bytes
                    << " bytes";
              }
              for (const auto& [name, count] : mpi_counts()) seen[name] += count;
            }
      }
  // Every route was used.
  EXPECT_EQ(seen.size(), n > 1 ? 10u : 0u);
}

TEST(MpiCalls, are_absent_with_shared_memory) {
  const int n = world_size();
  const auto comm = make_world(make_options(), Backend::shm);
  Array data(Dtype::fp32, 5000 * n), other(Dtype::fp32, 5000 * n);
  reset_mpi_counts();
  for (Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                Op::all_to_all, Op::barrier}) {
    Collective c;
    c.op = op, c.elems = 5000 * n, c.root = 0;
    c.reduction = is_reduction(op) ? Reduction::sum : Reduction::none;
    c.send = c.recv = data.at(0);
    if (op == Op::all_gather) c.send = data.at(comm->rank() * 5000);
    if (op == Op::reduce_scatter) c.recv = data.at(comm->rank() * 5000);
    if (op == Op::all_to_all) c.recv = other.at(0);
    run(*comm, c);
  }
  EXPECT_EQ(mpi_counts(), (std::map<std::string, std::int64_t>{}));
}

TEST(MpiCalls, follow_the_number_of_pieces) {
  using Calls = std::map<std::string, std::int64_t>;
  CommOptions options;
  Collective c;
  c.op = Op::all_reduce, c.dtype = Dtype::fp32, c.reduction = Reduction::sum;
  c.elems = (default_piece_bytes / 4) * 3 + 1;
  EXPECT_EQ(mpi_calls(c, 2, options), (Calls{{"MPI_Iallreduce", 4}}));
  EXPECT_EQ(mpi_calls(c, 1, options), Calls{});
  options.reductions = Reductions::ordered;
  EXPECT_EQ(mpi_calls(c, 2, options), (Calls{{"MPI_Iallgatherv", 2}, {"MPI_Ialltoallv", 2}}));
  c.elems = 0;
  EXPECT_EQ(mpi_calls(c, 2, options), Calls{});
  c.op = Op::barrier, c.reduction = Reduction::none;
  EXPECT_EQ(mpi_calls(c, 2, options), (Calls{{"MPI_Ibarrier", 1}}));
}

}  // namespace
}  // namespace shardmark::test::mpi_calls_test
