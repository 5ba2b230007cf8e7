// SPDX-License-Identifier: Apache-2.0
// The decorators: counting counts every call, delays of several collectives overlap, and each fault
// changes exactly what its name says.
#include <gtest/gtest.h>

#include <comm/decorators/counting.hpp>
#include <comm/decorators/delaying.hpp>
#include <comm/decorators/faulty.hpp>
#include <core/clock.hpp>
#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::decorators_test {
namespace {

Collective all_reduce(Array& data, Dtype dtype, std::string_view name = "") {
  Collective c;
  c.op = Op::all_reduce, c.dtype = dtype, c.reduction = Reduction::sum;
  c.elems = data.elems();
  c.send = c.recv = data.at(0);
  c.name = name;
  return c;
}

Array filled(Dtype dtype, std::int64_t elems, double v) {
  Array data(dtype, elems);
  for (std::int64_t i = 0; i < elems; ++i) data.set(i, v);
  return data;
}

TEST(Counting, counts_calls_elements_and_bytes_in_groups_too) {
  CommCounters counters;
  CountingCommunicator comm(make_world(make_options()), counters);
  const int n = comm.size();
  Array data(Dtype::fp32, 8 * n), none(Dtype::fp32, 0), half(Dtype::bf16, 8 * n);
  run(comm, all_reduce(data, Dtype::fp32));
  run(comm, all_reduce(none, Dtype::fp32));
  Collective gather;
  gather.op = Op::all_gather, gather.dtype = Dtype::bf16, gather.elems = 8 * n;
  gather.send = half.at(8 * comm.rank()), gather.recv = half.at(0);
  run(*comm.split(0, comm.rank()), gather);
  const Volume want{{Op::all_gather, {1, 8 * n, 16 * n}}, {Op::all_reduce, {2, 8 * n, 32 * n}}};
  EXPECT_EQ(counters.volume(), want);
  EXPECT_EQ(counters.volume(0), (Volume{{Op::all_reduce, want.at(Op::all_reduce)}}));
  EXPECT_EQ(counters.volume(1), (Volume{{Op::all_gather, want.at(Op::all_gather)}}));
  EXPECT_TRUE(counters.records().empty());
  counters.reset();
  EXPECT_TRUE(counters.volume().empty());
}

// Counts the collectives of a world in which each takes at least delay_ns.
struct Delayed {
  static constexpr std::int64_t delay_ns = 20'000'000;
  const CommOptions options = make_options();
  CommCounters counters;
  CountingCommunicator comm{
      std::make_unique<DelayingCommunicator>(make_world(options), delay_ns, options.idle),
      counters};
};

TEST(Counting, records_each_from_start_to_done_while_recording) {
  Delayed delayed;
  CommCounters& counters = delayed.counters;
  CountingCommunicator& comm = delayed.comm;
  Array a(Dtype::fp64, 5), b(Dtype::int32, 6);
  counters.recording(true);
  comm.start(all_reduce(a, Dtype::fp64, "grad.a"));
  const Ticket last = comm.start(all_reduce(b, Dtype::int32, "grad.b"));
  comm.progress();
  comm.wait(last);
  counters.recording(false);
  run(comm, all_reduce(a, Dtype::fp64, "grad.c"));
  ASSERT_EQ(counters.records().size(), 2u);
  const CollectiveRecord& first = counters.records()[0];
  const CollectiveRecord& second = counters.records()[1];
  EXPECT_EQ(counters.names()[static_cast<std::size_t>(first.name)], "grad.a");
  EXPECT_EQ(counters.names()[static_cast<std::size_t>(second.name)], "grad.b");
  EXPECT_EQ(first.elems, 5);
  EXPECT_EQ(second.dtype, Dtype::int32);
  std::int64_t blocked_ns = 0;
  for (const CollectiveRecord& r : counters.records()) {
    EXPECT_GE(r.done_ns - r.issue_ns, Delayed::delay_ns);
    EXPECT_LE(r.blocked_ns, r.done_ns - r.issue_ns);
    blocked_ns += r.blocked_ns;
  }
  EXPECT_GT(first.blocked_ns, 0);
  EXPECT_LE(blocked_ns, counters.blocked_ns());
}

// A group's call begins while one of the world is open, and ends after it.
TEST(Counting, time_in_flight_is_that_with_at_least_one_open) {
  Delayed delayed;
  CommCounters& counters = delayed.counters;
  CountingCommunicator& comm = delayed.comm;
  const std::unique_ptr<Communicator> group = comm.split(0, comm.rank());
  Array a(Dtype::fp64, 5), b(Dtype::fp64, 5);
  counters.recording(true);
  const Ticket of_world = comm.start(all_reduce(a, Dtype::fp64));
  const Ticket of_group = group->start(all_reduce(b, Dtype::fp64));
  EXPECT_EQ(counters.in_flight_ns(), 0) << "neither is done";
  comm.wait(of_world);
  group->wait(of_group);
  const std::int64_t together_ns = counters.in_flight_ns();
  EXPECT_EQ(together_ns, counters.records()[1].done_ns - counters.records()[0].issue_ns);
  run(comm, all_reduce(a, Dtype::fp64));
  const CollectiveRecord& alone = counters.records()[2];
  EXPECT_EQ(counters.in_flight_ns(), together_ns + alone.done_ns - alone.issue_ns);
}

TEST(Counting, does_not_count_the_time_beside_an_emulated_kernel) {
  CommCounters counters;
  bool emulating = true;
  counters.not_exposed_while(&emulating);
  CountingCommunicator comm(make_world(make_options()), counters);
  Array a(Dtype::fp64, 5);
  counters.recording(true);
  run(comm, all_reduce(a, Dtype::fp64, "grad.a"));
  EXPECT_EQ(counters.blocked_ns(), 0);
  EXPECT_EQ(counters.records().at(0).blocked_ns, 0);
  emulating = false;
  run(comm, all_reduce(a, Dtype::fp64, "grad.a"));
  EXPECT_GT(counters.blocked_ns(), 0);
}

TEST(Delaying, delays_each_from_its_own_start) {
  constexpr std::int64_t delay_ns = 50'000'000;
  const CommOptions options = make_options();
  DelayingCommunicator comm(make_world(options), delay_ns, options.idle);
  std::vector<Array> data(8, filled(Dtype::fp32, 100, 1));
  const std::int64_t begin_ns = monotonic_ns();
  Ticket first = 0, last = 0;
  for (Array& d : data) {
    last = comm.start(all_reduce(d, Dtype::fp32));
    if (first == 0) first = last;
  }
  EXPECT_FALSE(comm.test(first));
  comm.wait(last);
  const std::int64_t spent_ns = monotonic_ns() - begin_ns;
  EXPECT_GE(spent_ns, delay_ns);
  EXPECT_LT(spent_ns, 8 * delay_ns) << "the delays added up";
  for (const Array& d : data) EXPECT_EQ(d.get(99), comm.size());
}

TEST(Faulty, extra_call_adds_one_call_and_changes_no_result) {
  CommCounters counters;
  auto counting = std::make_unique<CountingCommunicator>(make_world(make_options()), counters);
  FaultyCommunicator comm(std::move(counting), {CommFault::extra_call, 0, 2, 1});
  std::vector<Array> data(3, filled(Dtype::fp32, 10, 1));
  std::vector<Ticket> tickets;
  reset_mpi_counts();
  for (Array& d : data) tickets.push_back(comm.start(all_reduce(d, Dtype::fp32)));
  EXPECT_EQ(tickets, (std::vector<Ticket>{1, 2, 3}));
  for (Ticket t : tickets) comm.wait(t);
  EXPECT_TRUE(comm.test(3));
  EXPECT_EQ(counters.volume().at(Op::all_reduce).calls, 4);
  EXPECT_EQ(comm.hits(), 1);
  if (comm.size() > 1) {
    EXPECT_EQ(mpi_counts()["MPI_Iallreduce"], 4);
  }
  for (const Array& d : data) EXPECT_EQ(d.get(9), comm.size());
}

// The number of wrong elements in each of three all_reduces.
std::vector<int> wrong_elements(FaultyCommunicator& comm) {
  std::vector<int> wrong;
  for (int k = 0; k < 3; ++k) {
    Array data = filled(Dtype::fp32, 10, 1);
    run(comm, all_reduce(data, Dtype::fp32));
    int differ = 0;
    for (std::int64_t i = 0; i < 10; ++i) differ += data.get(i) != comm.size();
    wrong.push_back(differ);
  }
  return wrong;
}

TEST(Faulty, flip_bit_changes_one_element_on_one_rank_once) {
  const int victim = world_size() - 1;
  FaultyCommunicator comm(make_world(make_options()), {CommFault::flip_bit, victim, 2, 1});
  const auto wrong = wrong_elements(comm);
  EXPECT_EQ(wrong, comm.rank() == victim ? (std::vector{0, 1, 0}) : (std::vector{0, 0, 0}));
  EXPECT_EQ(comm.hits(), comm.rank() == victim ? 1 : 0);
}

// The groups are pairs of neighbours, and only the group of the victim is affected.
TEST(Faulty, groups_are_faulty_where_the_victim_is) {
  const int victim = world_size() - 1;
  FaultyCommunicator comm(make_world(make_options()), {CommFault::flip_bit, victim, 1, 1});
  const auto pair = comm.split(comm.rank() / 2, comm.rank());
  Array data = filled(Dtype::fp32, 10, 1);
  run(*pair, all_reduce(data, Dtype::fp32));
  int differ = 0;
  for (std::int64_t i = 0; i < 10; ++i) differ += data.get(i) != pair->size();
  EXPECT_EQ(differ, comm.rank() == victim ? 1 : 0);
  EXPECT_EQ(comm.hits(), 0);
}

TEST(Faulty, skip_wait_leaves_the_old_content_on_one_rank) {
  const int victim = world_size() - 1;
  FaultyCommunicator comm(make_world(make_options()), {CommFault::skip_wait, victim, 2, 2});
  const auto wrong = wrong_elements(comm);
  // With one rank the old content is the right result.
  const int all = comm.rank() == victim && comm.size() > 1 ? 10 : 0;
  EXPECT_EQ(wrong, (std::vector{0, all, all}));
  EXPECT_EQ(comm.hits(), comm.rank() == victim ? 2 : 0);
}

TEST(Faulty, stale_shard_delivers_the_previous_shard_of_the_last_rank) {
  FaultyCommunicator comm(make_world(make_options()), {CommFault::stale_shard, 0, 1, 1});
  const int n = comm.size();
  for (int round = 0; round < 3; ++round)
    for (const char* name : {"param.a", "param.b"}) {
      const Array own = filled(Dtype::fp32, 4, 10 * round + comm.rank());
      Array all(Dtype::fp32, 4 * n);
      Collective c;
      c.op = Op::all_gather, c.elems = 4 * n, c.send = own.at(0), c.recv = all.at(0), c.name = name;
      run(comm, c);
      const bool stale = comm.rank() == 0 && round == 1 && std::string_view(name) == "param.a";
      for (int r = 0; r < n; ++r)
        EXPECT_EQ(all.get(4 * r), 10 * (stale && r == n - 1 ? 0 : round) + r)
            << name << ", round " << round;
    }
}

}  // namespace
}  // namespace shardmark::test::decorators_test
