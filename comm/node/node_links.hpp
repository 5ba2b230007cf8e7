// SPDX-License-Identifier: Apache-2.0
// The communicators between the nodes of a group, and how fast they are.
#pragma once

#include <cstdint>
#include <vector>

#include <comm/idle.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/node/node_map.hpp>

namespace shardmark {

/// The communicators of one rail. The rank in them is the number of the node. A collective makes
/// its first calls on one and its second calls on the other, so that both have the same order on
/// all nodes, whatever finishes first.
struct Rail {
  int number = 0;  // in the NodeMap
  OwnedComm first, second;
};

/// Makes the rails that this rank drives. Collective over `group`, whose nodes `map` describes.
/// Empty communicators if there is one node. Throws CommError.
std::vector<Rail> make_rails(MPI_Comm group, const NodeMap& map);

/// What a link between two nodes gives when all of its rails are in use: the same on all ranks.
struct LinkSpeed {
  double latency_us = 0;    // half of a round trip of one byte
  double bytes_per_us = 0;  // of one node, into each direction, all rails together

  /// The size of a piece, a power of two in bytes, whose transfer takes several times the latency.
  std::int64_t piece_bytes() const;
};

/// Measures the link to the next node; takes some thirty latencies and the time of 2 MiB. A rank
/// that waits pauses as `idle` says. Collective over `group`. Throws CommError.
LinkSpeed measure_links(MPI_Comm group, const NodeMap& map, const std::vector<Rail>& rails,
                        const Idle& idle);

}  // namespace shardmark
