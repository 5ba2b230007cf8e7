// SPDX-License-Identifier: Apache-2.0
// Collectives among all ranks, by verb, type and size, alone and beside computation.
#include <algorithm>

#include <fmt/core.h>

#include <comm/mpi/node.hpp>
#include <miniapp/calibrate/collective_probe.hpp>
#include <miniapp/calibrate/probe.hpp>

namespace shardmark {
namespace {

// Measures all verbs among the ranks of `comm`, of which `ranks_per_node` share a node.
NetworkLevel measure_level(const Probe& probe, MPI_Comm comm, int ranks_per_node) {
  const std::int64_t largest = probe.quick ? std::int64_t{64} << 20 : std::int64_t{512} << 20;
  CollectiveProbe collectives(probe.world.node, comm, probe.world.peers, largest);
  const int ranks = collectives.size();
  NetworkLevel level;
  level.name = ranks_per_node == ranks ? "within the node" : "all ranks";
  level.between_nodes = ranks_per_node < ranks;
  level.library = collectives.library();
  level.link.measured = true;
  const auto measure = [&](Op op, Dtype dtype, std::int64_t from) {
    probe.progress(fmt::format("{} {} {}", to_string(op), to_string(dtype), level.name));
    CollectiveTimes t{
        .op = op, .dtype = dtype, .ranks = ranks, .ranks_per_node = ranks_per_node, .points = {}};
    for (std::int64_t bytes = from; bytes <= largest; bytes *= op == Op::barrier ? largest : 4) {
      const double guess = t.points.empty() ? 1e-4 : t.points.back().seconds * 4;
      const int repeats = std::clamp(static_cast<int>(0.08 / guess), probe.quick ? 2 : 3, 25);
      t.points.push_back({static_cast<double>(bytes),
                          undisturbed_mean(collectives.times(op, dtype, bytes, repeats))});
      if (bytes < largest && bytes * 4 > largest && op != Op::barrier) bytes = largest / 4;
    }
    never_faster_when_larger(t.points);
    level.collectives.push_back(std::move(t));
  };
  for (const Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                      Op::all_to_all})
    measure(op, Dtype::fp32, 64);
  for (const Op op : {Op::reduce_scatter, Op::all_reduce, Op::reduce}) measure(op, Dtype::bf16, 64);
  measure(Op::barrier, Dtype::uint8, 1);
  const CollectiveTimes& gather = level.collectives.front();
  level.link.latency_s = gather.points.front().seconds;
  level.link.bytes_per_s =
      gather.points.back().size / gather.points.back().seconds * (ranks - 1) / ranks;
  probe.progress("collectives beside computation");
  level.compute_share = collectives.share_of_compute(std::int64_t{16} << 20);
  level.speed_beside_compute = level.compute_share > 0.5 ? 0.5 : 1;
  return level;
}

}  // namespace

void probe_collectives(const Probe& probe, Machine& machine) {
  const World& world = probe.world;
  const int ranks = world.peers.size(), of_node = world.node.ranks;
  if (ranks < 2) return;
  // The nodes' own collectives are measured on all nodes at once, as a run has them; rank 0 writes.
  if (of_node < ranks && world.peers.gather(of_node).front() > 1)
    machine.network.push_back(measure_level(probe, ranks_of_node(world.comm).get(), of_node));
  machine.network.push_back(measure_level(probe, world.comm, of_node));
}

}  // namespace shardmark
