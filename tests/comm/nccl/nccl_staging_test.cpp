// SPDX-License-Identifier: Apache-2.0
// Device buffers with a back-end of the host: each operation gives the result of its definition and
// runs after the work on the compute stream; pinned memory is reused, and is not needed at all when
// MPI accepts device addresses and carries out the whole collective.
#include <gtest/gtest.h>

#include <comm/collective.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/nccl/nccl_stream.hpp>
#include <tests/comm/nccl/fake_device.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::nccl_staging_test {
namespace {

class Staging : public ::testing::TestWithParam<std::tuple<Reductions, bool>> {
 protected:
  void SetUp() override {
    fake() = FakeDevice{};
    options = make_options(std::get<0>(GetParam()));
    options.mpi.device_buffers = std::get<1>(GetParam());
    options.compute_stream = compute.get();
    comm = stage_through_host(make_world(options, Backend::mpi), options);
  }
  void TearDown() override {
    comm.reset();
    EXPECT_EQ(fake().allocations, 0);
    mpi_barrier();
  }

  CommOptions options;
  DeviceStream compute;
  std::unique_ptr<Communicator> comm;
};

TEST_P(Staging, every_operation_works_in_place_and_out_of_place) {
  const int n = comm->size(), rank = comm->rank();
  for (Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                Op::all_to_all})
    for (Dtype dtype : {Dtype::fp32, Dtype::bf16})
      for (bool inside : {false, true}) {
        if (op == Op::all_to_all && inside) continue;
        SCOPED_TRACE(to_string(op));
        const std::int64_t shard = 37, elems = shard * n, own = rank * shard;
        Array send(dtype, elems), recv(dtype, elems);
        Collective c;
        c.op = op, c.dtype = dtype, c.elems = elems, c.root = n - 1;
        c.reduction = is_reduction(op) ? Reduction::average : Reduction::none;
        Array& out = inside ? send : recv;
        c.send = op == Op::all_gather ? send.at(own) : send.at(0);
        c.recv = op == Op::reduce_scatter && inside ? out.at(own) : out.at(0);
        const auto scratch = bring_scratch(c, n, options);
        // The compute stream writes the data when it reaches this task.
        enqueue(compute.get(), [&] {
          for (std::int64_t i = 0; i < elems; ++i) send.set(i, (rank + 1) * n);
          return true;
        });
        run(*comm, c);
        const std::int64_t first = op == Op::reduce_scatter && inside ? own : 0;
        for (std::int64_t i = 0; i < received_elems(c, rank, n); ++i) {
          double want = (n + 1) * n / 2.0;  // the mean of n, 2n … n*n
          if (op == Op::all_gather || op == Op::all_to_all) want = (i / shard + 1) * n;
          if (op == Op::broadcast) want = n * n;
          ASSERT_EQ(out.get(first + i), want) << i;
        }
      }
}

TEST_P(Staging, pinned_memory_is_used_again) {
  Array data(Dtype::fp32, 100);
  Collective c;
  c.op = Op::broadcast, c.root = 0, c.elems = 100, c.send = c.recv = data.at(0);
  run(*comm, c);
  const int after_one = fake().allocations;
  for (int i = 0; i < 20; ++i) run(*comm, c);
  EXPECT_EQ(fake().allocations, after_one);
}

TEST_P(Staging, with_device_addresses_only_data_that_the_host_touches_is_staged) {
  const bool aware = std::get<1>(GetParam()), alone = comm->size() == 1;
  const bool ordered = std::get<0>(GetParam()) == Reductions::ordered;
  const std::int64_t n = comm->size(), elems = 10 * n;
  const auto staged = [&](Op op, Dtype dtype, Reduction reduction, bool inside) {
    comm.reset();
    comm = stage_through_host(make_world(options, Backend::mpi), options);
    Array send(dtype, elems), recv(dtype, elems);
    Collective c;
    c.op = op, c.dtype = dtype, c.reduction = reduction, c.elems = elems, c.root = 0;
    c.send = send.at(op == Op::all_gather && inside ? comm->rank() * 10 : 0);
    c.recv = inside ? send.at(0) : recv.at(0);
    const auto scratch = bring_scratch(c, static_cast<int>(n), options);
    run(*comm, c);
    return fake().allocations > 0;
  };
  EXPECT_EQ(staged(Op::all_gather, Dtype::bf16, Reduction::none, true), !aware || alone);
  EXPECT_EQ(staged(Op::broadcast, Dtype::bf16, Reduction::none, true), !aware || alone);
  EXPECT_EQ(staged(Op::broadcast, Dtype::fp32, Reduction::none, false),
            !aware || alone || comm->rank() == 0)
      << "the root copies";
  EXPECT_EQ(staged(Op::all_reduce, Dtype::fp32, Reduction::sum, true), !aware || alone || ordered);
  EXPECT_TRUE(staged(Op::all_reduce, Dtype::fp32, Reduction::average, true)) << "we divide";
  EXPECT_TRUE(staged(Op::all_reduce, Dtype::bf16, Reduction::sum, true)) << "we sum";
  EXPECT_TRUE(staged(Op::reduce_scatter, Dtype::fp32, Reduction::sum, false)) << "we pack";
}

TEST(DeviceBuffers, are_accepted_if_the_mpi_library_says_so) {
  EXPECT_FALSE(mpi_takes_device_buffers()) << "no MPI of a machine without a GPU does";
}

INSTANTIATE_TEST_SUITE_P(nccl, Staging,
                         ::testing::Combine(::testing::Values(Reductions::native,
                                                              Reductions::ordered),
                                            ::testing::Bool()),
                         [](const auto& param_info) {
                           return std::string(to_string(std::get<0>(param_info.param))) +
                                  (std::get<1>(param_info.param) ? "_mpi_takes_them" : "_staged");
                         });

}  // namespace
}  // namespace shardmark::test::nccl_staging_test
