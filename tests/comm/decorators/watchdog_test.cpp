// SPDX-License-Identifier: Apache-2.0
// The watchdog names the rank that is late. Here the late rank comes once all others have
// complained, so that the test can continue; the program stopped_rank tests a rank that never
// comes.
#include <utility>

#include <gtest/gtest.h>

#include <comm/decorators/watching.hpp>
#include <core/clock.hpp>
#include <core/error.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::watchdog_test {
namespace {

constexpr double timeout_s = 0.2;
constexpr std::int64_t latest_ns = 20'000'000'000;  // when the late rank comes in any case
constexpr int complaint_tag = 77;

void pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// The last rank comes late to a call for which all others wait.
class Late : public ::testing::TestWithParam<TestedBackend> {
 protected:
  void SetUp() override {
    if (world_size() == 1) GTEST_SKIP() << "one rank waits for nobody";
    watch = std::make_unique<Watchdog>(MPI_COMM_WORLD, timeout_s, make_options().idle);
    auto inner = make_world(make_options(), GetParam());
    lane = inner.get();
    comm = std::make_unique<WatchingCommunicator>(std::move(inner), *watch);
  }
  bool is_late() const { return world_rank() + 1 == world_size(); }

  Collective named(Op op, std::string_view name) {
    Collective c;
    c.op = op, c.dtype = Dtype::int32, c.elems = 1, c.root = 0, c.name = name;
    c.reduction = is_reduction(op) ? Reduction::max : Reduction::none;
    c.send = c.recv = &value;
    return c;
  }

  // The late rank calls `busy` until every other rank has complained.
  template<class Busy>
  void come_late(Busy busy) const {
    const std::int64_t end_ns = monotonic_ns() + latest_ns;
    for (int missing = world_size() - 1; missing > 0 && monotonic_ns() < end_ns; busy()) {
      int arrived = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, complaint_tag, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
      if (!arrived) continue;
      MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, complaint_tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      --missing;
    }
  }
  void complain() {
    if (is_late() || std::exchange(complained, true)) return;
    MPI_Send(nullptr, 0, MPI_BYTE, world_size() - 1, complaint_tag, MPI_COMM_WORLD);
  }

  template<class Busy>
  std::string wait_for_late(Busy busy) {
    if (is_late()) come_late(busy);
    const Ticket ticket = comm->start(named(Op::all_reduce, "grad.block3"));
    std::string message;
    try {
      comm->wait(ticket);
    } catch (const CommError& e) {
      message = e.what();
    }
    complain();
    lane->wait(ticket);  // without the watchdog, and now the call does finish
    mpi_barrier();
    return message;
  }

  // Waits until `ticket` is done, however often the watchdog complains, and returns its first
  // message.
  std::string first_complaint(Communicator& group, Ticket ticket) {
    std::string first;
    for (;;) try {
        group.wait(ticket);
        return first;
      } catch (const CommError& e) {
        if (!first.empty()) continue;
        first = e.what();
        complain();
      }
  }

  // Other ranks may be named too: a rank that got its error waits without the watchdog and does not
  // answer any more.
  void check_named(const std::string& message, const std::string& what) const {
    EXPECT_EQ(message.rfind("all_reduce grad.block3 (call ", 0), 0u) << message;
    EXPECT_NE(message.find(") not finished after 0.2 s: rank "), std::string::npos) << message;
    const auto at = message.find("rank " + last + " (host ");
    ASSERT_NE(at, std::string::npos) << message;
    EXPECT_EQ(message.find(") " + what, at), message.find(')', at)) << message;
  }

  std::int32_t value = 0;
  std::unique_ptr<Watchdog> watch;
  Communicator* lane = nullptr;
  std::unique_ptr<WatchingCommunicator> comm;
  const std::string last = std::to_string(world_size() - 1);
  bool complained = false;
};

INSTANTIATE_TEST_SUITE_P(comm, Late, ::testing::ValuesIn(tested_backends(Placement::halves)),
                         backend_name);

TEST_P(Late, a_rank_that_does_not_answer_is_named) {
  run(*comm, named(Op::barrier, "start"));
  const std::string message = wait_for_late(pause);
  if (is_late()) {
    EXPECT_EQ(message, "") << "the late rank has nobody to accuse";
    return;
  }
  check_named(message, "does not answer");
}

// The proof of a step's values exchanges its sums on watched lanes.
TEST_P(Late, a_rank_is_named_after_an_exchange_too) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(world_size()));
  const std::int32_t own = world_rank();
  for (int i = 0; i < 3; ++i) comm->exchange(&own, all.data(), sizeof own);
  EXPECT_EQ(all.back(), world_size() - 1);
  const std::string message = wait_for_late(pause);
  if (is_late()) return;
  check_named(message, "does not answer");
}

TEST_P(Late, a_rank_that_is_behind_is_named_with_the_call_where_it_is) {
  run(*comm, named(Op::broadcast, "param.head"));
  const std::string message = wait_for_late([this] { comm->progress(); });
  if (is_late()) return;
  check_named(message, "is past call 1, broadcast param.head");
}

TEST_P(Late, a_rank_that_polls_another_group_answers) {
  const auto group = comm->split(is_late() ? 0 : 1, 0);
  const std::string message = wait_for_late([&] { group->progress(); });
  if (is_late()) return;
  check_named(message, "has not started any call");
}

// The last rank is late in the group of the last two ranks. The last but one waits there, and is
// therefore late itself in the group of all ranks but the last.
TEST_P(Late, a_rank_that_waits_itself_is_not_to_blame) {
  const int rank = world_rank(), n = world_size();
  if (n < 3) GTEST_SKIP() << "needs two groups";
  const auto behind = comm->split(rank >= n - 2 ? 1 : 0, rank);
  const auto ahead = comm->split(rank <= n - 2 ? 0 : 1, rank);
  if (is_late()) come_late(pause);
  if (rank >= n - 2) first_complaint(*behind, behind->start(named(Op::all_reduce, "grad.shard")));
  std::string message;
  if (rank <= n - 2)
    message = first_complaint(*ahead, ahead->start(named(Op::all_reduce, "grad.replica")));
  mpi_barrier();
  if (rank >= n - 2) return;
  EXPECT_NE(message.find("rank " + last + " (host "), std::string::npos) << message;
  const std::string waiting = std::to_string(n - 2);
  EXPECT_NE(
      message.find("does not answer (rank " + waiting + " waits for it in all_reduce grad.shard)"),
      std::string::npos)
      << message;
  EXPECT_EQ(message.find("rank " + waiting + " (host "), std::string::npos) << message;
}

TEST_P(Late, nobody_is_accused_while_all_are_in_time) {
  for (int i = 0; i < 200; ++i) run(*comm, named(Op::all_reduce, "grad.block3"));
  EXPECT_EQ(comm->size(), world_size());
}

}  // namespace
}  // namespace shardmark::test::watchdog_test
