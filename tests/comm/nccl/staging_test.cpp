// SPDX-License-Identifier: Apache-2.0
// Buffers of the device through a back-end of the host: each verb gives what its definition says,
// after what the compute stream was given, and pinned memory is used again.
#include <gtest/gtest.h>

#include <comm/nccl/nccl.hpp>
#include <comm/nccl/stream.hpp>
#include <comm/validate.hpp>
#include <tests/comm/array.hpp>
#include <tests/comm/nccl/fake_device.hpp>
#include <tests/comm/world.hpp>

namespace shardmark::testing {
namespace {

class Staging : public ::testing::TestWithParam<Reductions> {
 protected:
  void SetUp() override {
    fake() = FakeDevice{};
    options = make_options(GetParam());
    options.compute_stream = compute.get();
    comm = stage_through_host(make_world(options, "mpi"), options);
  }
  void TearDown() override {
    comm.reset();
    EXPECT_EQ(fake().allocations, 0);
    mpi_barrier();
  }

  MpiOptions options;
  CudaStream compute;
  std::unique_ptr<Communicator> comm;
};

TEST_P(Staging, every_verb_crosses_in_place_and_out_of_place) {
  const int n = comm->size(), rank = comm->rank();
  for (Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast})
    for (Dtype dtype : {Dtype::fp32, Dtype::bf16})
      for (bool inside : {false, true}) {
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
        // Written by the compute stream, and not before it comes to that.
        enqueue(compute.get(), [&] {
          for (std::int64_t i = 0; i < elems; ++i) send.set(i, (rank + 1) * n);
          return true;
        });
        run(*comm, c);
        const std::int64_t first = op == Op::reduce_scatter && inside ? own : 0;
        for (std::int64_t i = 0; i < received_elems(c, rank, n); ++i) {
          double want = (n + 1) * n / 2.0;  // the mean of n, 2n … n*n
          if (op == Op::all_gather) want = (i / shard + 1) * n;
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

INSTANTIATE_TEST_SUITE_P(nccl, Staging, ::testing::Values(Reductions::native, Reductions::ordered),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

}  // namespace
}  // namespace shardmark::testing
