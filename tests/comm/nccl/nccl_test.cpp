// SPDX-License-Identifier: Apache-2.0
// Each operation is one NCCL call with 64-bit counts and the right addresses, and teardown frees
// everything. The results of the calls are tested by the tests of all back-ends, which this program
// contains too.
#include <gtest/gtest.h>

#include <comm/nccl/nccl_calls.hpp>
#include <tests/comm/nccl/fake_device.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::nccl_test {
namespace {

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override { fake() = FakeDevice{}; }
  void TearDown() override {
    fake() = FakeDevice{};
    mpi_barrier();
  }

  FakeCall only_call(Communicator& comm, const Collective& c) {
    fake().calls.clear();
    run(comm, c);
    EXPECT_EQ(fake().calls.size(), 1u);
    return fake().calls.empty() ? FakeCall{} : fake().calls[0];
  }
};

TEST_F(Nccl, counts_have_64_bits_and_in_place_is_by_address) {
  const auto comm = make_world(make_options(), Backend::nccl);
  fake().moves_data = false;
  const std::int64_t n = comm->size(), shard = (std::int64_t{5} << 31) + 3, rank = comm->rank();
  char* const base = reinterpret_cast<char*>(std::uintptr_t{1} << 40);  // never dereferenced
  for (Dtype dtype : {Dtype::bf16, Dtype::fp64}) {
    Collective c;
    c.dtype = dtype, c.elems = shard * n, c.root = 0;
    char* const own = base + rank * shard * dtype_bytes(dtype);
    c.op = Op::all_gather, c.send = own, c.recv = base;
    FakeCall call = only_call(*comm, c);
    EXPECT_EQ(call.name, "ncclAllGather");
    EXPECT_EQ(call.count, static_cast<std::size_t>(shard));
    EXPECT_EQ(call.send, own);
    EXPECT_EQ(call.recv, base);
    EXPECT_EQ(call.type, nccl_type(dtype));
    c.op = Op::reduce_scatter, c.reduction = Reduction::average, c.send = base, c.recv = own;
    call = only_call(*comm, c);
    EXPECT_EQ(call.name, "ncclReduceScatter");
    EXPECT_EQ(call.count, static_cast<std::size_t>(shard));
    EXPECT_EQ(call.recv, own);
    EXPECT_EQ(call.op, ncclSum) << "divided afterwards, once";
    c.op = Op::all_reduce, c.reduction = Reduction::max, c.recv = base;
    call = only_call(*comm, c);
    EXPECT_EQ(call.name, "ncclAllReduce");
    EXPECT_EQ(call.count, static_cast<std::size_t>(shard * n));
    EXPECT_EQ(call.op, ncclMax);
    c.op = Op::reduce, c.reduction = Reduction::sum, c.root = static_cast<int>(n) - 1;
    call = only_call(*comm, c);
    EXPECT_EQ(call.name, "ncclReduce");
    EXPECT_EQ(call.root, n - 1);
    c.op = Op::broadcast, c.reduction = Reduction::none;
    call = only_call(*comm, c);
    EXPECT_EQ(call.name, "ncclBroadcast");
    EXPECT_EQ(call.count, static_cast<std::size_t>(shard * n));
    c.op = Op::all_to_all, c.recv = base + 2 * n * shard * dtype_bytes(dtype);
    call = only_call(*comm, c);
    EXPECT_EQ(call.name, "ncclGroupEnd") << "one group of a send and a receive for each rank";
    EXPECT_EQ(call.count, static_cast<std::size_t>(shard));
    EXPECT_EQ(call.send, base);
    EXPECT_EQ(call.recv, c.recv);
  }
}

TEST_F(Nccl, every_dtype_has_a_type_of_its_own) {
  std::vector<ncclDataType_t> seen;
  for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16, Dtype::fp64, Dtype::uint8,
                      Dtype::int32, Dtype::int64, Dtype::int8}) {
    EXPECT_LT(nccl_type(dtype), ncclNumTypes);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), nccl_type(dtype)), 0);
    seen.push_back(nccl_type(dtype));
  }
}

TEST_F(Nccl, an_empty_collective_is_no_call) {
  const auto comm = make_world(make_options(), Backend::nccl);
  Collective c;
  c.op = Op::all_reduce, c.reduction = Reduction::sum, c.elems = 0;
  fake().calls.clear();
  run(*comm, c);
  EXPECT_TRUE(fake().calls.empty());
}

TEST_F(Nccl, teardown_finalizes_each_communicator_and_leaves_nothing) {
  {
    const auto comm = make_world(make_options(), Backend::nccl);
    const auto group = comm->split(comm->rank() % 2, 0);
    run(*comm, Collective{});
    run(*group, Collective{});
    EXPECT_EQ(fake().comms, 2);
    EXPECT_EQ(fake().streams, 2) << "a communicator and a stream per group";
  }
  EXPECT_EQ(fake().finalized, 2);
  EXPECT_EQ(fake().destroyed, 2);
  EXPECT_EQ(fake().aborted, 0);
  EXPECT_EQ(fake().comms, 0);
  EXPECT_EQ(fake().streams, 0);
  EXPECT_EQ(fake().events, 0);
  EXPECT_EQ(fake().allocations, 0);
}

TEST_F(Nccl, events_are_reused) {
  const auto comm = make_world(make_options(), Backend::nccl);
  for (int i = 0; i < 50; ++i) run(*comm, Collective{});
  EXPECT_LE(fake().events, 2);
}

TEST_F(Nccl, exchange_uses_host_memory_and_no_nccl_call) {
  const auto comm = make_world(make_options(), Backend::nccl);
  fake().calls.clear();
  const std::int64_t own = comm->rank() * 10;
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm->size()));
  EXPECT_EQ(comm->exchange(&own, all.data(), sizeof own), 0u);
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], 10 * static_cast<std::int64_t>(r));
  EXPECT_TRUE(fake().calls.empty());
}

}  // namespace
}  // namespace shardmark::test::nccl_test
