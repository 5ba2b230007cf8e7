// SPDX-License-Identifier: Apache-2.0
// Compares the collectives of ShardMark's back-ends with those of MPI as a user would call them:
// fp32 sums in place (all_to_all into another array), one call for the whole array. All take turns
// in one run, so that they meet the same conditions. A time is that from the last rank's start to
// the last rank's end, a figure the median of the turns.
//
//     mpiexec -n 2 bench_collectives [LARGEST_MIB [TURNS [LINK_GBPS]]]
//
// On one node the back-ends are `mpi` and `shm`, on several `mpi` and `node`. LINK_GBPS is the rate
// of each node's link in Gb/s; the table then also says which part of that rate a collective
// reaches, counting each byte once that has to leave a node. Prints a table of bus bandwidths as
// nccl-tests defines them (array bytes / time, times 2(N-1)/N for all_reduce, (N-1)/N for the
// others), for 4 KiB microseconds instead, and then one JSON line for each figure.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <ci/bench.d/turns.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/node.hpp>
#include <comm/node/node_map.hpp>
#include <core/plan/collective_scratch.hpp>
#include <miniapp/ranks/clock_offset.hpp>
#include <miniapp/run/launch.hpp>

namespace shardmark::bench {
namespace {

constexpr Op verbs[] = {Op::all_reduce, Op::reduce_scatter, Op::all_gather, Op::all_to_all};

struct Contender {
  std::string name;
  std::unique_ptr<Communicator> comm;  // null: MPI itself
  CommOptions options;
};

struct Array {
  explicit Array(std::int64_t elems) : data(static_cast<std::size_t>(elems), 1.0f) {}
  std::vector<float> data, received;
  std::vector<std::byte> scratch;
};

void call_mpi(MPI_Comm world, Op op, Array& array, std::int64_t elems, int ranks) {
  const int all = static_cast<int>(elems), shard = all / ranks;
  float* const a = array.data.data();
  if (op == Op::all_reduce)
    SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, a, all, MPI_FLOAT, MPI_SUM, world));
  else if (op == Op::reduce_scatter)
    SHARDMARK_MPI(MPI_Reduce_scatter_block(MPI_IN_PLACE, a, shard, MPI_FLOAT, MPI_SUM, world));
  else if (op == Op::all_to_all)
    SHARDMARK_MPI(
        MPI_Alltoall(a, shard, MPI_FLOAT, array.received.data(), shard, MPI_FLOAT, world));
  else
    SHARDMARK_MPI(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, shard, MPI_FLOAT, world));
}

// The arguments of a call; made before the clock starts.
Collective in_place(const Contender& who, Op op, Array& array, std::int64_t elems) {
  Collective c;
  c.op = op, c.elems = elems;
  c.reduction = is_reduction(op) ? Reduction::sum : Reduction::none;
  float* const a = array.data.data();
  float* const shard = a + who.comm->rank() * (elems / who.comm->size());
  c.send = op == Op::all_gather ? shard : a;
  c.recv = op == Op::reduce_scatter ? shard : op == Op::all_to_all ? array.received.data() : a;
  c.scratch_bytes =
      collective_scratch_bytes(op, c.dtype, elems, who.comm->size(), who.options.reductions,
                               who.options.mpi.staging_cap_bytes, who.options.mpi.piece_bytes);
  array.scratch.resize(static_cast<std::size_t>(c.scratch_bytes));
  c.scratch = array.scratch.data();
  return c;
}

// Seconds of each contender, medians over the turns.
std::vector<double> race(const World& world, const GroupClock& clock, std::vector<Contender>& field,
                         Op op, Array& array, std::int64_t elems, int turns) {
  struct Times {
    std::vector<double> starts_s, ends_s;
  };
  std::vector<Times> times(field.size());
  if (op == Op::all_to_all) array.received.resize(array.data.size(), 1.0f);
  for (int turn = -1; turn < turns; ++turn)  // one more, to warm up
    for (std::size_t k = 0; k < field.size(); ++k) {
      const Collective c = field[k].comm ? in_place(field[k], op, array, elems) : Collective{};
      world.peers.barrier();
      const double start_s = clock.now_s();
      if (field[k].comm)
        run(*field[k].comm, c);
      else
        call_mpi(world.comm, op, array, elems, world.peers.size());
      if (turn >= 0) times[k].starts_s.push_back(start_s), times[k].ends_s.push_back(clock.now_s());
      world.peers.barrier();
      std::fill_n(array.data.begin(), elems, 1.0f);
    }
  std::vector<double> medians;
  for (const Times& t : times)
    medians.push_back(spread(spans(t.starts_s, t.ends_s, world.peers)).median);
  return medians;
}

std::vector<Contender> make_field(const World& world, int nodes) {
  std::vector<Contender> field;
  field.push_back({"MPI", nullptr, {}});
  for (const Backend backend : {Backend::mpi, nodes > 1 ? Backend::node : Backend::shm})
    for (const Reductions reductions : {Reductions::native, Reductions::ordered}) {
      if (backend == Backend::mpi && reductions == Reductions::ordered && nodes > 1) continue;
      CommOptions options;
      options.reductions = reductions;
      options.idle = world.node.idle();
      field.push_back({fmt::format("{} {}", to_string(backend), to_string(reductions)),
                       make_communicator(backend, world.comm, options), options});
    }
  return field;
}

struct Arguments {
  std::int64_t largest_mib = 256;
  int turns = 9;
  double link_gbps = 0;
};

void compare(const Arguments& a, const World& world) {
  const auto [largest_mib, turns, link_gbps] = a;
  const int nodes = NodeMap(nodes_of_ranks(world.comm), 0).nodes();
  const GroupClock clock(world.peers, world.node.host);
  std::vector<Contender> field = make_field(world, nodes);
  const int ranks = world.peers.size(), width = link_gbps > 0 ? 22 : 15;
  Array array(largest_mib << 18);
  std::string json;
  if (world.peers.rank() == 0) {
    fmt::print("{:<15}{:>8}", fmt::format("{} ranks", ranks), "KiB");
    for (const Contender& f : field) fmt::print("{:>{}}", f.name, width);
    fmt::print("   GB/s of the bus or us (times as fast as MPI's own{})\n",
               link_gbps > 0 ? ", part of the link" : "");
  }
  for (const Op op : verbs)
    for (const std::int64_t kib : {4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10}) {
      if (kib > largest_mib << 10 || (kib == 64 && nodes == 1)) continue;
      const std::int64_t elems = (kib << 8) / ranks * ranks;
      const auto seconds =
          race(world, clock, field, op, array, elems, kib < 16384 ? 5 * turns : turns);
      if (world.peers.rank() != 0) continue;
      fmt::print("{:<15}{:>8}", to_string(op), kib);
      for (std::size_t k = 0; k < field.size(); ++k) {
        const double algorithm = static_cast<double>(elems) * 4 / seconds[k] / 1e9;
        const double bus = algorithm * (op == Op::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
        // What each node has to send, at the rate of its link.
        const double sent =
            static_cast<double>(elems) * 4 * (op == Op::all_reduce ? 2 : 1) * (nodes - 1) / nodes;
        const double of_link = link_gbps > 0 ? sent * 8e-9 / link_gbps / seconds[k] : 0;
        const std::string part = link_gbps > 0 ? fmt::format(", {:.2f}", of_link) : "";
        fmt::print("{:>{}}",
                   fmt::format("{:.2f} ({:.2f}{})", kib < 1024 ? seconds[k] * 1e6 : bus,
                               seconds[0] / seconds[k], part),
                   width);
        json += fmt::format(
            R"({{"bench": "collectives", "op": "{}", "ranks": {}, "nodes": {}, "link_gbps": {}, )"
            R"("bytes": {}, "by": "{}", "seconds": {:.7f}, "busbw_GBps": {:.3f}, )"
            R"("times_mpi": {:.3f}, "part_of_link": {:.3f}}})"
            "\n",
            to_string(op), ranks, nodes, link_gbps, elems * 4, field[k].name, seconds[k], bus,
            seconds[0] / seconds[k], of_link);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  if (world.peers.rank() == 0) fmt::print("{}", json);
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark;
  bench::Arguments a;
  if (argc > 1) a.largest_mib = std::max(1LL, std::atoll(argv[1]));
  if (argc > 2) a.turns = std::max(1, std::atoi(argv[2]));
  if (argc > 3) a.link_gbps = std::atof(argv[3]);
  return static_cast<int>(launch([&](const World& world) {
    bench::compare(a, world);
    return ExitStatus::valid;
  }));
}
