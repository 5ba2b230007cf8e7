// SPDX-License-Identifier: Apache-2.0
// many_collectives COUNT SEED [TIMEOUT_S]: random collectives on the back-end that `auto` picks,
// several in flight at a time, while ranks pause at random. Every element of every result is
// compared with its definition. Prints one line, and ends with status 1 if a value was wrong and 5
// if a collective did not finish in time.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include <comm/collective.hpp>
#include <comm/decorators/watching.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <comm/mpi/node.hpp>
#include <core/clock.hpp>
#include <core/random.hpp>
#include <tests/support/array.hpp>

namespace shardmark::test {
namespace {

// Element i of a rank: a small multiple of the world size, so that averages are exact in any type.
double value(std::uint64_t salt, int rank, std::int64_t i, int size) {
  return static_cast<double>(
      (i * 5 + i / 64 * 3 + i / 4096 + rank * 3 + static_cast<std::int64_t>(salt % 7)) % 7 * size);
}

class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(mix(seed_, stream_, at_++) %
                                     static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t seed_, stream_, at_ = 0;
};

// One collective with its buffers.
struct Call {
  Call(Collective shape, std::uint64_t the_salt, int the_rank, int the_size, const CommOptions& o)
      : c(shape),
        salt(the_salt),
        rank(the_rank),
        size(the_size),
        send(c.dtype, c.elems),
        recv(c.dtype, c.elems) {
    for (std::int64_t i = 0; i < c.elems; ++i) send.set(i, value(salt, rank, i, size));
    c.name = "many";
    if (c.op != Op::barrier) {
      c.send = send.at(c.op == Op::all_gather ? rank * (c.elems / size) : 0);
      c.recv = recv.at(0);
    }
    scratch = bring_scratch(c, size, o);
  }
  double expected(std::int64_t i) const {
    const std::int64_t shard = c.elems / size;
    if (c.op == Op::all_gather) return value(salt, static_cast<int>(i / shard), i, size);
    if (c.op == Op::all_to_all)
      return value(salt, static_cast<int>(i / shard), rank * shard + i % shard, size);
    if (c.op == Op::broadcast) return value(salt, c.root, i, size);
    double sum = 0, most = 0;
    for (int r = 0; r < size; ++r) {
      const double v = value(salt, r, c.op == Op::reduce_scatter ? rank * shard + i : i, size);
      sum += v;
      most = std::max(most, v);
    }
    if (c.reduction == Reduction::max) return most;
    return c.reduction == Reduction::average ? sum / size : sum;
  }
  std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < received_elems(c, rank, size); ++i)
      count += recv.get(i) != expected(i) ? 1 : 0;
    return count;
  }

  Collective c;
  std::uint64_t salt;
  int rank, size;
  Array send, recv;
  std::vector<std::byte> scratch;
  Ticket ticket = 0;
};

Collective draw_shape(Draws& draws, int size) {
  constexpr Op ops[] = {Op::all_gather, Op::all_reduce, Op::reduce_scatter, Op::reduce,
                        Op::broadcast,  Op::all_to_all, Op::barrier};
  constexpr Dtype dtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16, Dtype::fp64, Dtype::int32};
  constexpr Reduction reductions[] = {Reduction::sum, Reduction::average, Reduction::max};
  Collective c;
  c.op = ops[draws.below(std::size(ops))];
  c.dtype = dtypes[draws.below(std::size(dtypes))];
  c.reduction = Reduction::none;
  if (is_reduction(c.op)) c.reduction = reductions[draws.below(std::size(reductions))];
  if (c.dtype == Dtype::int32 && c.reduction == Reduction::average) c.reduction = Reduction::sum;
  // Mostly short arrays, and one in 64 long enough for several pieces.
  const std::int64_t most = draws.below(64) == 0 ? 200000 : 4000;
  c.elems = c.op == Op::barrier ? 0 : (1 + draws.below(most)) * size;
  c.root = c.op == Op::reduce || c.op == Op::broadcast ? static_cast<int>(draws.below(size)) : -1;
  return c;
}

int measure(const MpiWorld& world, std::int64_t count, std::uint64_t seed, double timeout_s) {
  constexpr std::size_t most_in_flight = 4;
  CommOptions options;
  options.idle = find_node(world.comm()).idle();
  Watchdog watch(world.comm(), timeout_s, options.idle);
  WatchingCommunicator comm(make_communicator(Backend::automatic, world.comm(), options), watch);
  Draws same(seed, 1), mine(seed, 2 + static_cast<std::uint64_t>(comm.rank()));
  std::deque<Call> calls;
  std::int64_t wrong = 0, pauses = 0, elems = 0;
  const std::int64_t start_ns = monotonic_ns();
  const auto finish = [&] {
    comm.wait(calls.front().ticket);
    wrong += calls.front().wrong();
    calls.pop_front();
  };
  for (std::int64_t i = 0; i < count; ++i) {
    if (mine.below(200) == 0) {  // up to 20 ms, and one in 20 up to 400 ms
      const std::int64_t most_us = mine.below(20) == 0 ? 400'000 : 20'000;
      std::this_thread::sleep_for(std::chrono::microseconds(mine.below(most_us)));
      ++pauses;
    }
    Call& call = calls.emplace_back(draw_shape(same, comm.size()),
                                    mix(seed, 0, static_cast<std::uint64_t>(i)), comm.rank(),
                                    comm.size(), options);
    elems += call.c.elems;
    call.ticket = comm.start(call.c);
    if (calls.size() == most_in_flight || same.below(3) == 0) finish();
  }
  while (!calls.empty()) finish();
  double sums[] = {static_cast<double>(wrong), static_cast<double>(pauses)};
  Collective sum;
  sum.op = Op::all_reduce, sum.reduction = Reduction::sum, sum.dtype = Dtype::fp64, sum.elems = 2;
  sum.root = -1, sum.send = sum.recv = sums, sum.name = "sums";
  const auto scratch = bring_scratch(sum, comm.size(), options);
  run(comm, sum);
  if (comm.rank() == 0)
    std::printf(
        "%lld collectives of %lld elements on %d ranks (%s), seed %llu: %.0f pauses, %.0f s, "
        "%.0f wrong elements\n",
        static_cast<long long>(count), static_cast<long long>(elems), comm.size(),
        std::string(to_string(comm.backend())).c_str(), static_cast<unsigned long long>(seed),
        sums[1], static_cast<double>(monotonic_ns() - start_ns) * 1e-9, sums[0]);
  return sums[0] > 0 ? 1 : 0;
}

}  // namespace
}  // namespace shardmark::test

int main(int argc, char** argv) {
  using namespace shardmark;
  const MpiWorld world(argc, argv);
  if (argc < 3) return 2;
  try {
    const int status =
        test::measure(world, std::atoll(argv[1]), std::strtoull(argv[2], nullptr, 10),
                      argc > 3 ? std::atof(argv[3]) : 60);
    std::fflush(stdout);
    // MPI_Finalize may hang over TCP (docs/hosts.md).
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      std::_Exit(status);
    }).detach();
    return status;
  } catch (const Error& e) {
    std::fprintf(stderr, "shardmark: %s\n", e.what());
    abort_all(world.comm(), e.status());
  }
}
