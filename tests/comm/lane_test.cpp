// SPDX-License-Identifier: Apache-2.0
// A communicator is one lane: several collectives in flight, lanes of several groups, and the
// collectives that it refuses.
#include <gtest/gtest.h>

#include <comm/factory/make_communicator.hpp>
#include <tests/support/array.hpp>
#include <tests/support/message_of.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::lane_test {
namespace {

Collective sum_of(Array& data, Dtype dtype) {
  Collective c;
  c.op = Op::all_reduce, c.dtype = dtype, c.reduction = Reduction::sum;
  c.elems = data.elems();
  c.send = c.recv = data.at(0);
  return c;
}

class Lane : public ::testing::TestWithParam<TestedBackend> {};
INSTANTIATE_TEST_SUITE_P(comm, Lane, ::testing::ValuesIn(tested_backends()), backend_name);

TEST_P(Lane, collectives_finish_in_the_order_in_which_they_were_started) {
  CommOptions options = make_options();
  options.mpi.piece_bytes = options.shm.buffer_bytes = 256;
  options.node.most_piece_bytes = options.node.least_piece_bytes = 256;
  const auto comm = make_world(options, GetParam());
  std::vector<Array> data(5, Array(Dtype::int32, 1000));
  std::vector<Ticket> tickets;
  for (int k = 0; k < 5; ++k) {
    for (std::int64_t i = 0; i < 1000; ++i) data[k].set(i, k + comm->rank());
    tickets.push_back(comm->start(sum_of(data[k], Dtype::int32)));
  }
  comm->progress();
  for (int k = 4; k >= 0; --k)  // from the last: a ticket is done only when all before it are done
    for (int before = 0; before < k && comm->test(tickets[k]); ++before) {
      EXPECT_TRUE(comm->test(tickets[before]));
    }
  comm->wait(tickets[3]);
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(comm->test(tickets[k]));
  comm->wait(tickets[4]);
  const int n = comm->size();
  for (int k = 0; k < 5; ++k)
    for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(data[k].get(i), n * k + n * (n - 1) / 2);
}

TEST_P(Lane, a_rank_may_run_ahead_of_the_others) {
  const auto comm = make_world(make_options(), GetParam());
  Array first(Dtype::fp32, 3), second(Dtype::fp32, 3);
  first.set(0, 1), second.set(0, 2);
  if (comm->rank() != 0) mpi_barrier();
  const Ticket a = comm->start(sum_of(first, Dtype::fp32));
  const Ticket b = comm->start(sum_of(second, Dtype::fp32));
  if (comm->rank() == 0 && comm->size() > 1) {
    for (int i = 0; i < 100; ++i) comm->progress();
    EXPECT_FALSE(comm->test(a));
  }
  if (comm->rank() == 0) mpi_barrier();
  comm->wait(b);
  EXPECT_EQ(first.get(0), comm->size());
  EXPECT_EQ(second.get(0), 2 * comm->size());
}

TEST_P(Lane, an_empty_collective_waits_its_turn) {
  const auto comm = make_world(make_options(), GetParam());
  Array data(Dtype::fp32, 10), none(Dtype::fp32, 0);
  data.set(3, 1);
  comm->start(sum_of(data, Dtype::fp32));
  comm->wait(comm->start(sum_of(none, Dtype::fp32)));
  EXPECT_EQ(data.get(3), comm->size());
}

TEST_P(Lane, groups_are_lanes_of_their_own) {
  const auto world = make_world(make_options(), GetParam());
  const int rank = world->rank(), n = world->size();
  Array early(Dtype::int64, 2000);
  for (std::int64_t i = 0; i < 2000; ++i) early.set(i, 1);
  const Ticket open = world->start(sum_of(early, Dtype::int64));  // the split waits for it
  const auto group = world->split(rank % 2, -rank);               // the keys reverse the order
  EXPECT_TRUE(world->test(open));
  const int members = (n + 1 - rank % 2) / 2;
  EXPECT_EQ(group->size(), members);
  EXPECT_EQ(group->rank(), members - 1 - rank / 2);
  // The two lanes are interleaved differently on different ranks, because lanes are independent.
  Array a(Dtype::int64, 500), b(Dtype::int64, 500);
  for (std::int64_t i = 0; i < 500; ++i) a.set(i, rank), b.set(i, 1);
  Ticket in_world = 0, in_group = 0;
  if (rank % 2 == 0) in_world = world->start(sum_of(a, Dtype::int64));
  in_group = group->start(sum_of(b, Dtype::int64));
  if (rank % 2 == 1) in_world = world->start(sum_of(a, Dtype::int64));
  group->wait(in_group);
  world->wait(in_world);
  EXPECT_EQ(a.get(499), n * (n - 1) / 2);
  EXPECT_EQ(b.get(499), members);
}

TEST_P(Lane, refusals_name_the_value_and_the_bound) {
  const auto comm = make_world(make_options(), GetParam());
  const int n = comm->size();
  Array data(Dtype::fp32, 2 * n + 1);
  Collective c = sum_of(data, Dtype::fp32);
  c.name = "grad.block3";
  const auto refusal = [&](auto change) {
    Collective changed = c;
    change(changed);
    return message_of([&] { comm->start(changed); });
  };
  EXPECT_EQ(refusal([](Collective& x) { x.elems = -1; }),
            "all_reduce grad.block3: elems = -1: must not be negative");
  EXPECT_EQ(refusal([](Collective& x) { x.reduction = Reduction::none; }),
            "all_reduce grad.block3: reduction = none: must be sum, average or max");
  EXPECT_EQ(refusal([](Collective& x) { x.recv = nullptr; }),
            "all_reduce grad.block3: buffer: null: must hold the elements");
  EXPECT_EQ(refusal([](Collective& x) { x.op = Op::copy; }),
            "copy grad.block3: op: must be a collective");
  EXPECT_EQ(refusal([n](Collective& x) { x.op = Op::reduce, x.root = n; }),
            "reduce grad.block3: root = " + std::to_string(n) + ": must be a rank, 0 to " +
                std::to_string(n - 1));
  EXPECT_EQ(
      refusal([n](Collective& x) {
        x.op = Op::all_to_all, x.elems = n, x.reduction = Reduction::none;
      }),
      "all_to_all grad.block3: buffer: sends and receives at one address: must be two arrays");
  if (n > 1) {
    EXPECT_EQ(refusal([](Collective& x) { x.op = Op::reduce_scatter; }),
              "reduce_scatter grad.block3: elems = " + std::to_string(2 * n + 1) +
                  ": must divide by the " + std::to_string(n) + " ranks: pad the array");
    if (comm->backend() == Backend::mpi) {
      EXPECT_EQ(refusal([n](Collective& x) { x.op = Op::reduce_scatter, x.elems = 2 * n; }),
                "reduce_scatter grad.block3: scratch = 0 bytes: must be at least " +
                    std::to_string(8 * n) + ": provide what collective_scratch_bytes returns");
    }
  }
  EXPECT_EQ(message_of([&] { comm->test(7); }).rfind("ticket 7: must name a started", 0), 0u);
}

}  // namespace
}  // namespace shardmark::test::lane_test
