// SPDX-License-Identifier: Apache-2.0
// The time of a collective among given ranks: from measured points where the machine has them for
// this verb and this arrangement of ranks, else from latency and bandwidth of its links.
#pragma once

#include <cstdint>

#include <core/plan/price/machine.hpp>
#include <core/plan/price/scatter.hpp>

namespace shardmark {

/// A collective and the ranks that take part.
struct CollectiveShape {
  Op op = Op::all_reduce;
  Dtype dtype = Dtype::fp32;
  std::int64_t elems = 0;  // of the whole array, S of nccl-tests
  int ranks = 1;
  int ranks_per_node = 1;  // of these ranks
  int busy_ranks = 1;      // of the node, all of which communicate at the same time
  bool in_place = false;   // as in CollectiveTimes
};

/// A collective's time in its parts: `latency_s` does not depend on the size.
struct CollectiveTime {
  double latency_s = 0, transfer_s = 0;
  bool between_nodes = false;
  bool from_points = false;  // measured at this number of ranks
  double beyond = 1;         // as Estimate::beyond
};

/// The part of the array that each rank of a ring sends over its link. It is also bus bandwidth, as
/// nccl-tests defines it (doc/PERFORMANCE.md there), divided by the array's bytes over time.
double ring_share(Op op, int ranks);

/// The level of the network that limits a collective of these ranks; null if the machine has none.
const NetworkLevel* level_of(const Machine& machine, const CollectiveShape& shape);

/// The time from the arrival of the last rank to the end. One rank needs none.
CollectiveTime collective_time(const Machine& machine, const CollectiveShape& shape);

}  // namespace shardmark
