// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/collective_time.hpp>

namespace shardmark {
namespace {

// Steps of the ring algorithm: 2(n-1) for all_reduce, n-1 for the others (Thakur, Rabenseifner and
// Gropp, Optimization of Collective Communication Operations in MPICH, 2005).
double ring_steps(Op op, int ranks) {
  if (op == Op::barrier) return std::ceil(std::log2(static_cast<double>(ranks)));
  return (op == Op::all_reduce ? 2.0 : 1.0) * (ranks - 1);
}

// The part of the array that each rank sends over its link; bus bandwidth counts the same.
double ring_share(Op op, int ranks) {
  const double n = ranks;
  switch (op) {
    case Op::all_reduce: return 2 * (n - 1) / n;
    case Op::all_gather:
    case Op::reduce_scatter: return (n - 1) / n;
    case Op::reduce:
    case Op::broadcast: return 1;
    default: return 0;
  }
}

double bytes_of(const CollectiveShape& shape) {
  return static_cast<double>(shape.elems) * static_cast<double>(dtype_bytes(shape.dtype));
}

// The points that fit best: the verb must agree; then the ranks, and then the type.
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
                                                            : 0.02);
    if (best == nullptr || distance < best_distance) best = &t, best_distance = distance;
  }
  return best;
}

CollectiveTime from_points(const CollectiveTimes& t, const CollectiveShape& shape) {
  const Estimate e = on_curve(t.points, bytes_of(shape));
  CollectiveTime time;
  time.latency_s = std::min(e.value, t.points.front().seconds);
  time.transfer_s = e.value - time.latency_s;
  time.beyond = e.beyond;
  time.from_points = t.ranks == shape.ranks && t.ranks_per_node == shape.ranks_per_node;
  if (time.from_points) return time;
  // Measured with other ranks: steps scale the latency, and the ring's shares the transfer.
  time.latency_s *= ring_steps(shape.op, shape.ranks) / std::max(1.0, ring_steps(t.op, t.ranks));
  const double share = ring_share(t.op, t.ranks);
  if (share > 0) time.transfer_s *= ring_share(shape.op, shape.ranks) / share;
  time.beyond = std::max(
      time.beyond, std::max<double>(shape.ranks, t.ranks) / std::min<double>(shape.ranks, t.ranks));
  return time;
}

CollectiveTime from_link(const NetworkLevel& level, const CollectiveShape& shape) {
  CollectiveTime time;
  time.latency_s = ring_steps(shape.op, shape.ranks) * level.link.latency_s;
  double rate = level.link.bytes_per_s * level.efficiency / level.oversubscription;
  if (level.between_nodes && level.node_bytes_per_s > 0)
    rate = std::min(rate, level.node_bytes_per_s * level.efficiency / level.oversubscription /
                              shape.ranks_per_node);
  if (rate > 0) time.transfer_s = bytes_of(shape) * ring_share(shape.op, shape.ranks) / rate;
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
  CollectiveTime time = points != nullptr ? from_points(*points, shape) : from_link(*level, shape);
  time.between_nodes = level->between_nodes;
  return time;
}

}  // namespace shardmark
