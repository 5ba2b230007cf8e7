// SPDX-License-Identifier: Apache-2.0
// Rule: an all_to_all whose parts differ delivers the part of each pair of ranks, and nothing else,
// on every back-end, in one piece and in many. It is refused where parts do not fit, and counters,
// proofs and faults know its parts.
#include <gtest/gtest.h>

#include <comm/collective.hpp>
#include <comm/decorators/counting.hpp>
#include <comm/decorators/faulty.hpp>
#include <comm/decorators/proving.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/self/self_communicator.hpp>
#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/array.hpp>
#include <tests/support/message_of.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::parts_test {
namespace {

constexpr double untouched = 99;

// How much one rank sends to another one: something else for each pair, and often nothing.
std::int64_t part_of(int from, int to, std::int64_t most) {
  return (from * 5 + to * 3 + 1) % 4 == 0 ? 0 : (most * (1 + (from * 2 + to) % 3) + 2) / 3;
}

// An exchange of all ranks of a group, with the buffers of this rank.
struct Exchange {
  Exchange(Communicator& comm, Dtype dtype, std::int64_t most) {
    const int rank = comm.rank(), size = comm.size();
    for (int r = 0; r < size; ++r) counts.push_back(part_of(rank, r, most));
    for (int r = 0; r < size; ++r) counts.push_back(part_of(r, rank, most));
    c.op = Op::all_to_all, c.dtype = dtype, c.elems = most * size, c.parts = counts.data();
    c.name = "some.parts";
    send = Array(dtype, sent_elems(c, rank, size));
    recv = Array(dtype, received_elems(c, rank, size) + 3);
    for (std::int64_t i = 0; i < recv.elems(); ++i) recv.set(i, untouched);
    std::int64_t at = 0;
    for (int r = 0; r < size; ++r)
      for (std::int64_t i = 0; i < part_of(rank, r, most); ++i) send.set(at++, value(rank, r, i));
    c.send = send.at(0), c.recv = recv.at(0);
  }
  static double value(int from, int to, std::int64_t i) {
    return static_cast<double>((from * 7 + to * 3 + i) % 50);
  }
  void expect_delivered(Communicator& comm, std::int64_t most) const {
    std::int64_t at = 0;
    for (int r = 0; r < comm.size(); ++r)
      for (std::int64_t i = 0; i < part_of(r, comm.rank(), most); ++i)
        ASSERT_EQ(recv.get(at++), value(r, comm.rank(), i)) << "from rank " << r;
    for (; at < recv.elems(); ++at) ASSERT_EQ(recv.get(at), untouched) << "beyond the parts";
  }

  std::vector<std::int64_t> counts;
  Array send{Dtype::uint8, 0}, recv{Dtype::uint8, 0};
  Collective c;
};

class Parts : public ::testing::TestWithParam<TestedBackend> {
 protected:
  static CommOptions in_pieces_of(std::int64_t bytes) {
    CommOptions options = make_options();
    options.mpi.piece_bytes = options.shm.buffer_bytes = bytes;
    options.node.most_piece_bytes = options.node.least_piece_bytes = bytes;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(comm, Parts, ::testing::ValuesIn(tested_backends()), backend_name);

TEST_P(Parts, reach_the_rank_they_are_for) {
  for (const std::int64_t bytes : {1 << 18, 192}) {
    const auto comm = make_world(in_pieces_of(bytes), GetParam());
    for (const Dtype dtype : all_dtypes)
      for (const std::int64_t most : {1, 2, 7, 251}) {
        SCOPED_TRACE(std::string(to_string(dtype)) + ", parts of up to " + std::to_string(most) +
                     ", pieces of " + std::to_string(bytes) + " bytes");
        Exchange x(*comm, dtype, most);
        const Array sent = x.send;
        const MovedVolume volume = comm->moved();
        const auto before = volume.find(Op::all_to_all);
        run(*comm, x.c);
        x.expect_delivered(*comm, most);
        EXPECT_EQ(x.send, sent) << "the send buffer was written";
        const Moved moved = comm->moved()
                                .at(Op::all_to_all)
                                .since(before == volume.end() ? Moved{} : before->second);
        EXPECT_EQ(moved.sent_elems, x.send.elems());
        EXPECT_EQ(moved.received_elems, x.recv.elems() - 3);
      }
  }
}

TEST_P(Parts, follow_each_other_in_groups) {
  const auto comm = make_world(in_pieces_of(192), GetParam());
  const auto group = comm->split(comm->rank() % 2, -comm->rank());
  Exchange a(*comm, Dtype::fp32, 100), b(*group, Dtype::fp32, 40);
  comm->start(a.c);
  Exchange c(*comm, Dtype::bf16, 3);
  const Ticket last = comm->start(c.c);
  run(*group, b.c);
  comm->wait(last);
  a.expect_delivered(*comm, 100);
  b.expect_delivered(*group, 40);
  c.expect_delivered(*comm, 3);
}

TEST_P(Parts, are_refused_where_they_do_not_fit) {
  const auto comm = make_world(make_options(), GetParam());
  const int n = comm->size();
  Exchange x(*comm, Dtype::fp32, 6);
  const auto refusal = [&](auto change) {
    std::vector<std::int64_t> counts = x.counts;
    Collective changed = x.c;
    changed.parts = counts.data();
    change(changed, counts);
    return message_of([&] { comm->start(changed); });
  };
  const std::string bound = ": must be 0 to elems / " + std::to_string(n) + " ranks = 6";
  EXPECT_EQ(refusal([](Collective&, auto& counts) { counts[0] = 7; }),
            "all_to_all some.parts: parts = 7" + bound);
  EXPECT_EQ(refusal([](Collective&, auto& counts) { counts.back() = -1; }),
            "all_to_all some.parts: parts = -1" + bound);
  EXPECT_EQ(refusal([](Collective& c, auto&) { c.op = Op::all_gather; }),
            "all_gather some.parts: parts: only those of an all_to_all may differ");
  EXPECT_EQ(refusal([&](Collective&, auto& counts) {
              const auto own = static_cast<std::size_t>(comm->rank());
              counts[own] = 1, counts[static_cast<std::size_t>(n) + own] = 2;
            }),
            "all_to_all some.parts: parts: this rank sends 1 elements to itself and receives 2");
}

TEST_P(Parts, are_counted_as_what_a_rank_sends_or_receives) {
  CommCounters counters;
  CountingCommunicator comm(make_world(make_options(), GetParam()), counters);
  Exchange x(comm, Dtype::fp32, 30);
  run(comm, x.c);
  const std::int64_t elems = std::max(x.send.elems(), x.recv.elems() - 3);
  EXPECT_EQ(counters.volume(), (Volume{{Op::all_to_all, {1, elems, 4 * elems}}}));
}

// On one rank and on the last of several.
TEST_P(Parts, are_proved_part_by_part) {
  const auto lane = make_world(make_options());
  for (const bool wrong : {false, true}) {
    Proof proof({Reductions::native});
    auto beneath = make_world(make_options(), GetParam());
    const int victim = beneath->size() - 1;
    const FaultChoice choice{CommFault::flip_bit, victim, 1, wrong ? 1 : 0};
    ProvingCommunicator comm(std::make_unique<FaultyCommunicator>(std::move(beneath), choice),
                             *lane, proof);
    proof.begin(1, 42);
    Exchange x(comm, Dtype::fp32, 300), y(comm, Dtype::bf16, 1);
    run(comm, x.c);
    run(comm, y.c);
    proof.end();
    EXPECT_EQ(proof.proved(), 2);
    const bool receives = x.recv.elems() > 3;
    if (comm.rank() == victim && receives) {
      EXPECT_EQ(proof.failures().size(), wrong ? 1u : 0u);
    }
    if (!wrong) {
      EXPECT_TRUE(proof.failures().empty());
    }
  }
}

TEST_P(Parts, lose_their_last_elements_by_the_fault_that_shortens) {
  const FaultChoice choice{CommFault::fewer_elems, 0, 1, 1};
  FaultyCommunicator comm(make_world(make_options(), GetParam()), choice);
  Exchange x(comm, Dtype::fp32, 30);
  run(comm, x.c);
  std::int64_t at = 0;
  for (int r = 0; r < comm.size(); ++r) {
    const std::int64_t elems = part_of(r, comm.rank(), 30);
    for (std::int64_t i = 0; i < elems; ++i)
      ASSERT_EQ(x.recv.get(at++), i + 1 < elems ? Exchange::value(r, comm.rank(), i) : untouched);
  }
}

TEST(PartsOfOneRank, are_a_copy) {
  SelfCommunicator comm;
  Exchange x(comm, Dtype::fp16, 9);
  run(comm, x.c);
  x.expect_delivered(comm, 9);
}

TEST(PartsOverMpi, take_a_call_per_piece) {
  CommOptions options = make_options();
  options.mpi.piece_bytes = 40;
  const int n = make_world(options)->size();
  Collective c;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(2 * n), 25);
  c.op = Op::all_to_all, c.elems = 25 * n, c.parts = counts.data();
  const auto want = n == 1 ? std::map<std::string, std::int64_t>{}
                           : std::map<std::string, std::int64_t>{{"MPI_Ialltoallv", 3}};
  EXPECT_EQ(mpi_calls(c, n, options), want);
}

}  // namespace
}  // namespace shardmark::test::parts_test
