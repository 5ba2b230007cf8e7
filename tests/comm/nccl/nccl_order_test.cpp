// SPDX-License-Identifier: Apache-2.0
// The order on lanes: a collective runs after the work that was queued on the compute stream when
// it was started; work queued after `holds_compute` runs after the collective; the host waits for
// neither.
#include <gtest/gtest.h>

#include <comm/nccl/nccl_headers.hpp>
#include <comm/nccl/nccl_stream.hpp>
#include <tests/comm/nccl/fake_device.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::nccl_order_test {
namespace {

class NcclOrder : public ::testing::TestWithParam<int> {  // how many polls NCCL stays busy
 protected:
  void SetUp() override {
    fake() = FakeDevice{};
    fake().busy_polls = GetParam();
    CommOptions options = make_options();
    options.compute_stream = compute.get();
    comm = make_world(options, Backend::nccl);
  }
  void TearDown() override {
    comm.reset();
    fake() = FakeDevice{};
    mpi_barrier();
  }
  Collective sum(std::int32_t* value) const {
    Collective c;
    c.op = Op::all_reduce, c.reduction = Reduction::sum, c.dtype = Dtype::int32, c.elems = 1;
    c.send = c.recv = value;
    return c;
  }
  // Polls as often as is needed when nothing delays the collective.
  bool done_soon(Ticket ticket) {
    for (int i = 0; i < 50 + 4 * GetParam(); ++i)
      if (comm->test(ticket)) return true;
    return false;
  }

  DeviceStream compute;
  std::unique_ptr<Communicator> comm;
};

TEST_P(NcclOrder, a_collective_waits_for_what_was_launched_before_it) {
  std::int32_t value = 0;
  bool open = false, later = false;
  enqueue(compute.get(), [&] { return open; });
  enqueue(compute.get(), [&] { return value = comm->rank() + 1, true; });
  const Ticket ticket = comm->start(sum(&value));
  // This task was queued after the collective; if the lane waited for it, the test would hang.
  enqueue(compute.get(), [&] { return later; });
  EXPECT_FALSE(done_soon(ticket)) << "the compute stream has not come so far";
  open = true;
  comm->wait(ticket);
  EXPECT_EQ(value, comm->size() * (comm->size() + 1) / 2);
  later = true;
  pump();
}

TEST_P(NcclOrder, work_queued_after_hold_compute_waits_for_the_collective_and_the_host_does_not) {
  std::int32_t value = 1, seen = 0;
  const int last = comm->size() - 1;
  if (comm->rank() == last && last > 0) mpi_barrier();  // the other streams wait by then
  const Ticket ticket = comm->start(sum(&value));
  hold_compute(*comm, ticket);
  enqueue(compute.get(), [&] { return seen = value, true; });
  pump();
  if (comm->rank() != last) {
    EXPECT_EQ(seen, 0) << "the collective cannot be done: a rank is missing";
    mpi_barrier();
  }
  comm->wait(ticket);
  pump();
  EXPECT_EQ(seen, comm->size());
}

TEST_P(NcclOrder, the_compute_stream_is_idle_once_the_collective_is_done) {
  std::int32_t value = 1;
  const int last = comm->size() - 1;
  const bool late = comm->rank() == last && last > 0;
  if (late) mpi_barrier();  // the other ranks have checked their streams by then
  hold_compute(*comm, comm->start(sum(&value)));
  if (!late && last > 0) {
    EXPECT_FALSE(stream_is_idle(compute.get())) << "a rank is missing, and the host goes on";
    mpi_barrier();
  }
  while (!stream_is_idle(compute.get())) comm->progress();
  EXPECT_EQ(value, comm->size());
}

TEST_P(NcclOrder, a_lane_keeps_the_order_of_its_collectives) {
  std::vector<std::int32_t> value(6, 0);
  bool open = false;
  enqueue(compute.get(), [&] { return open; });
  std::vector<Ticket> tickets;
  for (int k = 0; k < 6; ++k) {
    // Each collective sums the result of the one before.
    enqueue(compute.get(), [&value, k] {
      return value[static_cast<std::size_t>(k)] =
                 k == 0 ? 1 : value[static_cast<std::size_t>(k - 1)],
             true;
    });
    tickets.push_back(comm->start(sum(&value[static_cast<std::size_t>(k)])));
    hold_compute(*comm, tickets.back());
  }
  open = true;
  comm->wait(tickets.back());
  std::int32_t power = 1;
  for (int k = 0; k < 6; ++k) {
    power *= comm->size();
    EXPECT_TRUE(comm->test(tickets[static_cast<std::size_t>(k)]));
    EXPECT_EQ(value[static_cast<std::size_t>(k)], power);
  }
}

TEST_P(NcclOrder, no_call_is_made_while_nccl_is_busy_with_the_last_one) {
  // The stand-in refuses such a call.
  std::vector<std::int32_t> value(20, 1);
  Ticket last = 0;
  for (auto& v : value) last = comm->start(sum(&v));
  comm->wait(last);
  for (auto v : value) EXPECT_EQ(v, comm->size());
}

TEST_P(NcclOrder, compute_is_not_ordered_before_the_collective_is_on_its_stream) {
  std::int32_t value = 1;
  const Ticket ticket = comm->start(sum(&value));
  int asked = 1;
  while (!comm->holds_compute(ticket)) ++asked;
  if (GetParam() > 0) {
    EXPECT_GT(asked, 1);
  }
  comm->wait(ticket);
}

INSTANTIATE_TEST_SUITE_P(nccl, NcclOrder, ::testing::Values(0, 5), [](const auto& param_info) {
  return param_info.param == 0 ? std::string("at_once") : std::string("in_progress");
});

}  // namespace
}  // namespace shardmark::test::nccl_order_test
