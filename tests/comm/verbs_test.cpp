// SPDX-License-Identifier: Apache-2.0
// Every operation gives exactly the result of its definition: for every dtype, in place and out of
// place, in one piece and in many, native and ordered, on every back-end. The data are integers
// whose sums are exact in any order.
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include <comm/collective.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/self/self_communicator.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::verbs_test {
namespace {

constexpr double untouched = 99;

// Element i of a rank: a small multiple of the world size, so that averages are exact too.
double value(int rank, std::int64_t i, int size) {
  return static_cast<double>((i * 5 + i / 64 * 3 + i / 4096 + rank * 3) % 7 * size);
}

// The sum and the maximum over all ranks. They are kept, because all types have the same.
struct Reduced {
  double sum = 0, highest = 0;
};
const Reduced& reduced(int size, std::int64_t i) {
  static std::map<int, std::vector<Reduced>> of_size;
  std::vector<Reduced>& known = of_size[size];
  for (auto next = static_cast<std::int64_t>(known.size()); next <= i; ++next) {
    Reduced& all = known.emplace_back();
    for (int r = 0; r < size; ++r) {
      all.sum += value(r, next, size);
      all.highest = std::max(all.highest, value(r, next, size));
    }
  }
  return known[static_cast<std::size_t>(i)];
}

double expected(const Collective& c, int size, std::int64_t i) {
  const Reduced& all = reduced(size, i);
  if (c.reduction == Reduction::max) return all.highest;
  return c.reduction == Reduction::average ? all.sum / size : all.sum;
}

// Where hosts have different numbers of ranks, two types tell enough.
bool is_tried(const TestedBackend& backend, Dtype dtype) {
  return backend.placement <= Placement::halves || dtype == Dtype::fp32 || dtype == Dtype::bf16;
}

// Both are kept, because many operations have the same.
const Array& sent_by(int rank, int size, Dtype dtype, std::int64_t elems) {
  static std::map<std::tuple<int, int, Dtype, std::int64_t>, Array> known;
  const auto [at, made] = known.try_emplace({rank, size, dtype, elems}, dtype, elems);
  for (std::int64_t i = 0; made && i < elems; ++i) at->second.set(i, value(rank, i, size));
  return at->second;
}
const Array& nothing_received(Dtype dtype, std::int64_t elems) {
  static std::map<std::pair<Dtype, std::int64_t>, Array> known;
  const auto [at, made] = known.try_emplace({dtype, elems}, dtype, elems);
  for (std::int64_t i = 0; made && i < elems; ++i) at->second.set(i, untouched);
  return at->second;
}

// The back-end counted each element that it took from the send buffer and each that it delivered.
void check_moved(const Communicator& comm, const Collective& c, const MovedVolume& before) {
  const auto of = [&](const MovedVolume& volume) {
    const auto it = volume.find(c.op);
    return it == volume.end() ? Moved{} : it->second;
  };
  const std::int64_t shard = c.elems / comm.size();
  Moved want;
  if (c.op == Op::all_gather) want.send(shard, c.dtype);
  if (c.op == Op::all_to_all) want.send(c.elems, c.dtype);
  if (is_reduction(c.op) || (c.op == Op::broadcast && c.root == comm.rank()))
    want.send(c.elems, c.dtype);
  want.receive(received_elems(c, comm.rank(), comm.size()), c.dtype);
  const Moved have = of(comm.moved()).since(of(before));
  ASSERT_EQ(have.sent_elems, want.sent_elems);
  ASSERT_EQ(have.sent_bytes, want.sent_bytes);
  ASSERT_EQ(have.received_elems, want.received_elems);
  ASSERT_EQ(have.received_bytes, want.received_bytes);
}

// Runs one collective on `comm` and checks all buffers of this rank afterwards.
void check(Communicator& comm, const CommOptions& options, Collective c, bool in_place) {
  const int rank = comm.rank(), size = comm.size();
  const std::int64_t shard = c.elems / size, own = rank * shard;
  const Array& sent = sent_by(rank, size, c.dtype, c.elems);
  Array send = sent, recv = nothing_received(c.dtype, c.elems);
  Array& out = in_place ? send : recv;
  c.send = c.op == Op::all_gather ? send.at(own) : send.at(0);
  c.recv = c.op == Op::reduce_scatter && in_place ? out.at(own) : out.at(0);
  if (c.op == Op::broadcast && rank != c.root && !in_place) c.send = nullptr;
  if (c.op == Op::reduce && rank != c.root && !in_place) c.recv = nullptr;
  const auto scratch = bring_scratch(c, size, options);
  const MovedVolume before = comm.moved();
  run(comm, c);
  check_moved(comm, c, before);

  const std::int64_t first = c.op == Op::reduce_scatter && in_place ? own : 0;
  const std::int64_t count = received_elems(c, rank, size);
  for (std::int64_t i = 0; i < count; ++i) {
    double want = 0;
    if (c.op == Op::all_gather)
      want = value(static_cast<int>(i / shard), i, size);
    else if (c.op == Op::all_to_all)
      want = value(static_cast<int>(i / shard), own + i % shard, size);
    else if (c.op == Op::broadcast)
      want = value(c.root, i, size);
    else
      want = expected(c, size, c.op == Op::reduce_scatter ? own + i : i);
    // Not ASSERT_EQ, which takes most of the time of large messages.
    if (out.get(first + i) != want)
      FAIL() << "element " << i << " is " << out.get(first + i) << ", not " << want;
  }
  if (in_place) return;
  ASSERT_EQ(send, sent) << "the send buffer was written";
  for (std::int64_t i = count; i < c.elems; ++i)
    if (recv.get(i) != untouched) FAIL() << "element " << i << " is not this rank's to receive";
}

struct Setting {
  std::int64_t piece_bytes, gather_bytes, cap_bytes, shm_buffer_bytes, shm_direct_bytes,
      node_piece_bytes;
};
// One piece; many pieces, with direct reads under `shm`; and staging for one row of elements only.
constexpr Setting settings[] = {{1 << 20, 1 << 28, 64 << 20, 1 << 18, 1 << 20, 1 << 19},
                                {200, 1000, 64 << 20, 128, 64, 192},
                                {200, 1, 40, 128, 1 << 20, 1}};

using Way = std::tuple<TestedBackend, Reductions>;

class Verbs : public ::testing::TestWithParam<Way> {
 protected:
  void check_all(Op op, std::initializer_list<std::int64_t> sizes, int root = -1) {
    for (const Setting& s : settings) {
      const auto& [backend, reductions] = GetParam();
      CommOptions options = make_options(reductions);
      options.mpi.piece_bytes = s.piece_bytes;
      options.mpi.gather_bytes = s.gather_bytes;
      options.mpi.staging_cap_bytes = s.cap_bytes;
      options.shm.buffer_bytes = s.shm_buffer_bytes;
      options.shm.direct_bytes = s.shm_direct_bytes;
      options.node.most_piece_bytes = options.node.least_piece_bytes = s.node_piece_bytes;
      const auto comm = make_world(options, backend);
      for (Dtype dtype : all_dtypes)
        for (Reduction reduction :
             {Reduction::none, Reduction::sum, Reduction::average, Reduction::max})
          for (std::int64_t elems : sizes)
            for (bool in_place : {false, true}) {
              if (is_reduction(op) == (reduction == Reduction::none)) continue;
              if (!is_tried(backend, dtype)) continue;
              if (s.cap_bytes < 64 && elems > 40) continue;
              if (op == Op::all_to_all && in_place) continue;
              SCOPED_TRACE(std::string(to_string(op)) + " " + std::string(to_string(dtype)) + " " +
                           std::string(to_string(reduction)) + " x " + std::to_string(elems) +
                           (in_place ? " in place" : "") + ", pieces of " +
                           std::to_string(s.piece_bytes) + " bytes");
              Collective c;
              c.op = op, c.dtype = dtype, c.reduction = reduction, c.elems = elems, c.root = root;
              check(*comm, options, c, in_place);
              if (HasFatalFailure()) return;
            }
    }
  }
};

// Real sizes: more than 64 Ki elements per rank, a tail that no block size divides, in several
// pieces. In place and out of place take turns, to save time.
TEST_P(Verbs, large_messages_are_exact_to_the_last_element) {
  const auto& [backend, reductions] = GetParam();
  CommOptions options = make_options(reductions);
  options.mpi.piece_bytes = 100'000;
  options.mpi.gather_bytes = 1'000'000;
  const auto comm = make_world(options, backend);
  const std::int64_t share = 70'001, n = comm->size();
  bool in_place = false;
  for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::all_gather, Op::reduce, Op::broadcast,
                Op::all_to_all})
    for (Dtype dtype : all_dtypes)
      for (Reduction reduction :
           {Reduction::none, Reduction::sum, Reduction::average, Reduction::max}) {
        if (is_reduction(op) == (reduction == Reduction::none)) continue;
        if (!is_tried(backend, dtype)) continue;
        const bool shards = has_parts(op);
        Collective c;
        c.op = op, c.dtype = dtype, c.reduction = reduction;
        c.elems = share * n + (shards ? 0 : 3);
        c.root = static_cast<int>(n) - 1;
        in_place = !in_place && op != Op::all_to_all;
        SCOPED_TRACE(std::string(to_string(op)) + " " + std::string(to_string(dtype)) + " " +
                     std::string(to_string(reduction)) + (in_place ? " in place" : ""));
        check(*comm, options, c, in_place);
        if (HasFatalFailure()) return;
      }
}

TEST_P(Verbs, all_reduce_gives_every_rank_the_whole_result) {
  check_all(Op::all_reduce, {0, 1, 2, 3, 5, 37, 501});
}
TEST_P(Verbs, reduce_scatter_gives_every_rank_its_shard) {
  const std::int64_t n = world_size();
  check_all(Op::reduce_scatter, {0, n, 3 * n, 7 * n, 251 * n});
}
TEST_P(Verbs, all_gather_gives_every_rank_all_shards) {
  const std::int64_t n = world_size();
  check_all(Op::all_gather, {0, n, 3 * n, 7 * n, 251 * n});
}
TEST_P(Verbs, all_to_all_gives_every_rank_its_part_of_each) {
  const std::int64_t n = world_size();
  check_all(Op::all_to_all, {0, n, 3 * n, 7 * n, 251 * n});
}
TEST_P(Verbs, reduce_gives_the_root_the_result) {
  for (int root : {0, world_size() - 1}) check_all(Op::reduce, {0, 1, 3, 37, 251}, root);
}
TEST_P(Verbs, broadcast_gives_every_rank_the_roots_array) {
  for (int root : {0, world_size() - 1}) check_all(Op::broadcast, {0, 1, 3, 37, 251}, root);
}
INSTANTIATE_TEST_SUITE_P(comm, Verbs,
                         ::testing::Combine(::testing::ValuesIn(tested_backends()),
                                            ::testing::ValuesIn(backend_reductions)),
                         [](const auto& param_info) {
                           return std::get<0>(param_info.param).name() + "_" +
                                  std::string(to_string(std::get<1>(param_info.param)));
                         });

class EachBackend : public ::testing::TestWithParam<TestedBackend> {};
INSTANTIATE_TEST_SUITE_P(comm, EachBackend, ::testing::ValuesIn(tested_backends()), backend_name);

TEST_P(EachBackend, averages_divide_and_do_not_multiply_by_the_reciprocal) {
  const auto comm = make_world(make_options(), GetParam());
  const int n = comm->size();
  Array data(Dtype::fp32, 200);
  for (std::int64_t i = 0; i < 200; ++i) data.set(i, comm->rank() == 0 ? i : 0);
  Collective c;
  c.op = Op::all_reduce, c.elems = 200, c.reduction = Reduction::average;
  c.send = c.recv = data.at(0);
  run(*comm, c);
  for (std::int64_t i = 0; i < 200; ++i)
    ASSERT_EQ(data.get(i), static_cast<float>(i) / static_cast<float>(n)) << "of " << i;
}

TEST_P(EachBackend, barriers_hold_until_all_have_come) {
  const auto comm = make_world(make_options(), GetParam());
  Collective c;
  c.op = Op::barrier;
  run(*comm, c);
  // The last rank starts the barrier when all others already wait; none may pass before.
  int arrived = 0;
  if (comm->rank() + 1 < comm->size()) {
    const Ticket ticket = comm->start(c);
    for (int i = 0; i < 50; ++i) EXPECT_FALSE(comm->size() > 1 && comm->test(ticket));
    mpi_barrier();
    comm->wait(ticket);
    arrived = 1;
  } else {
    mpi_barrier();
    run(*comm, c);
    arrived = 1;
  }
  EXPECT_EQ(arrived, 1);
}

TEST(Self, performs_every_operation_for_one_rank) {
  SelfCommunicator comm;
  const CommOptions options;
  for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::all_gather, Op::reduce, Op::broadcast,
                Op::all_to_all})
    for (Dtype dtype : all_dtypes)
      for (std::int64_t elems : {0, 1, 37, 70'001})
        for (bool in_place : {false, true}) {
          if (op == Op::all_to_all && in_place) continue;
          Collective c;
          c.op = op, c.dtype = dtype, c.elems = elems, c.root = 0;
          c.reduction = is_reduction(op) ? Reduction::average : Reduction::none;
          check(comm, options, c, in_place);
        }
}

}  // namespace
}  // namespace shardmark::test::verbs_test
