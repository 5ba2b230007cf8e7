// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/deck/choices.hpp>
#include <core/plan/price/collective_time.hpp>

namespace shardmark {

double ring_share(Op op, int ranks) {
  const double n = ranks;
  switch (op) {
    case Op::all_reduce: return 2 * (n - 1) / n;
    case Op::all_gather:
    case Op::all_to_all:
    case Op::reduce_scatter: return (n - 1) / n;
    case Op::reduce:
    case Op::broadcast: return 1;
    default: return 0;
  }
}

namespace {

// Steps of the ring algorithm: 2(n-1) for all_reduce, n-1 for the others (Thakur, Rabenseifner and
// Gropp, Optimization of Collective Communication Operations in MPICH, 2005).
double ring_steps(Op op, int ranks) {
  if (op == Op::barrier) return std::ceil(std::log2(static_cast<double>(ranks)));
  return (op == Op::all_reduce ? 2.0 : 1.0) * (ranks - 1);
}

// What communicates between nodes: the back-end `node` adds up and hands out within each node, so
// its steps and shares are those of as many ranks as there are nodes.
int parties(const NetworkLevel& level, int ranks, int ranks_per_node) {
  if (!level.between_nodes || level.library != to_string(Backend::node)) return ranks;
  return (ranks + ranks_per_node - 1) / ranks_per_node;
}

double bytes_of(const CollectiveShape& shape) {
  return static_cast<double>(shape.elems) * static_cast<double>(dtype_bytes(shape.dtype));
}

// The points that fit best: the verb must agree; then the ranks, the place, and the type.
const CollectiveTimes* points_for(const NetworkLevel& level, const CollectiveShape& shape) {
  const CollectiveTimes* best = nullptr;
  double best_distance = 0;
  for (const CollectiveTimes& t : level.collectives) {
    if (t.op != shape.op || t.points.empty() || t.beside_compute) continue;
    const double distance =
        std::abs(std::log(static_cast<double>(t.ranks) / shape.ranks)) +
        std::abs(std::log(static_cast<double>(t.ranks_per_node) / shape.ranks_per_node)) +
        (t.dtype == shape.dtype                             ? 0
         : dtype_bytes(t.dtype) == dtype_bytes(shape.dtype) ? 0.01
                                                            : 0.02) +
        (t.in_place == shape.in_place ? 0 : 0.1);
    if (best == nullptr || distance < best_distance) best = &t, best_distance = distance;
  }
  return best;
}

// The part of a node's links that these ranks have: others of the node communicate with other
// nodes at the same time.
double node_part(const CollectiveShape& shape) {
  return static_cast<double>(shape.ranks_per_node) /
         std::max({shape.busy_ranks, shape.ranks_per_node, 1});
}

// What the links of a node carry for these ranks; 0: unknown.
double node_rate(const NetworkLevel& level, const CollectiveShape& shape) {
  return (level.node_bytes_per_s > 0 ? level.node_bytes_per_s * node_part(shape)
                                     : level.link.bytes_per_s * shape.ranks_per_node) *
         level.efficiency / level.oversubscription;
}

// What a ring of these ranks carries, counted as bus bandwidth; 0: unknown. A ring whose ranks are
// in the order of nodes leaves each node once, so all links of a node carry it together.
double ring_rate(const Machine& machine, const NetworkLevel& level, const CollectiveShape& shape) {
  if (!level.between_nodes) return level.link.bytes_per_s * level.efficiency;
  const double outside = node_rate(level, shape);
  if (shape.ranks_per_node > 1)
    for (const NetworkLevel& other : machine.network)
      if (!other.between_nodes && other.link.bytes_per_s > 0)
        return std::min(outside, other.link.bytes_per_s * other.efficiency);
  return outside;
}

// NCCL's topology for these ranks: its channels share what the network carries.
NcclTopology topology_of(const NetworkLevel& level, const CollectiveShape& shape, double rate) {
  NcclTopology t = *level.nccl;
  const auto limit = [&](NcclChannels& c) {
    if (c.count > 0 && rate > 0) c.bytes_per_s = std::min(c.bytes_per_s, rate / c.count);
  };
  limit(t.ring);
  if (level.between_nodes) limit(t.tree);
  if (shape.ranks_per_node < shape.busy_ranks) t.nvls = {};
  return t;
}

// From latency and bandwidth of links, by the formulas of rings or by NCCL's own model.
CollectiveTime from_link(const Machine& machine, const NetworkLevel& level,
                         const CollectiveShape& shape) {
  CollectiveTime time;
  const double rate = ring_rate(machine, level, shape), bytes = bytes_of(shape);
  const double outside = node_rate(level, shape);
  if (shape.op == Op::all_to_all && level.between_nodes && outside > 0) {
    // No ring: each rank sends its parts for other nodes over the links of its node.
    const double to_others = static_cast<double>(shape.ranks - shape.ranks_per_node) / shape.ranks;
    time.latency_s = ring_steps(shape.op, shape.ranks) * level.link.latency_s;
    time.transfer_s = bytes * to_others * shape.ranks_per_node / outside;
    return time;
  }
  if (level.nccl && shape.op != Op::barrier && shape.op != Op::all_to_all) {
    const int nodes = (shape.ranks + shape.ranks_per_node - 1) / shape.ranks_per_node;
    const NcclTopology t = topology_of(level, shape, rate);
    const double all = nccl_estimate(shape.op, bytes, t, shape.ranks, nodes).seconds;
    time.latency_s = std::min(all, nccl_estimate(shape.op, 1, t, shape.ranks, nodes).seconds);
    time.transfer_s = all - time.latency_s;
    return time;
  }
  const int among = parties(level, shape.ranks, shape.ranks_per_node);
  time.latency_s = ring_steps(shape.op, among) * level.link.latency_s;
  if (rate > 0) time.transfer_s = bytes * ring_share(shape.op, among) / rate;
  return time;
}

// Measured among these ranks, or else among others: then the formulas say how much longer these
// take.
CollectiveTime from_points(const Machine& machine, const NetworkLevel& level,
                           const CollectiveTimes& t, const CollectiveShape& shape) {
  const Estimate e = on_curve(t.points, bytes_of(shape));
  CollectiveTime time;
  time.latency_s = std::min(e.value, t.points.front().seconds);
  time.transfer_s = e.value - time.latency_s;
  time.beyond = e.beyond;
  time.from_points = t.ranks == shape.ranks && t.ranks_per_node == shape.ranks_per_node;
  if (time.from_points) return time;
  time.beyond = std::max(
      time.beyond, std::max<double>(shape.ranks, t.ranks) / std::min<double>(shape.ranks, t.ranks));
  if (level.nccl) {
    CollectiveShape measured = shape;
    measured.ranks = t.ranks;
    measured.ranks_per_node = measured.busy_ranks = t.ranks_per_node;
    const CollectiveTime here = from_link(machine, level, shape),
                         there = from_link(machine, level, measured);
    const auto moved = [](double value, double to, double from) {
      return std::max(value + to - from, std::min(value, to));
    };
    time.latency_s = moved(time.latency_s, here.latency_s, there.latency_s);
    time.transfer_s = moved(time.transfer_s, here.transfer_s, there.transfer_s);
    return time;
  }
  // Steps scale the latency, and the ring's shares the transfer.
  const int among = parties(level, shape.ranks, shape.ranks_per_node);
  const int measured_among = parties(level, t.ranks, t.ranks_per_node);
  time.latency_s *= ring_steps(shape.op, among) / std::max(1.0, ring_steps(t.op, measured_among));
  const double share = ring_share(t.op, measured_among);
  if (share > 0) time.transfer_s *= ring_share(shape.op, among) / share;
  return time;
}

}  // namespace

const NetworkLevel* level_of(const Machine& machine, const CollectiveShape& shape) {
  const bool between = shape.ranks > shape.ranks_per_node;
  const NetworkLevel* found = nullptr;
  for (const NetworkLevel& level : machine.network)
    if (level.between_nodes == between) found = &level;
  return found != nullptr || machine.network.empty() ? found : &machine.network.back();
}

CollectiveTime collective_time(const Machine& machine, const CollectiveShape& shape) {
  const NetworkLevel* level = level_of(machine, shape);
  if (shape.ranks <= 1 || level == nullptr) return {};
  const CollectiveTimes* points = points_for(*level, shape);
  CollectiveTime time = points != nullptr ? from_points(machine, *level, *points, shape)
                                          : from_link(machine, *level, shape);
  time.between_nodes = level->between_nodes;
  const int busy = std::max(shape.busy_ranks, shape.ranks_per_node);
  const double turns =
      turns_on_cores(machine, busy, points != nullptr ? points->ranks_per_node : 1);
  time.latency_s *= turns;
  time.transfer_s *= turns;
  return time;
}

}  // namespace shardmark
