// SPDX-License-Identifier: Apache-2.0
// The communicators between the nodes of a group, and how fast they are.
// How a collective in two levels is split into pieces.
#pragma once

#include <cstdint>
#include <vector>

#include <comm/communicator.hpp>
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

/// How many pieces are in progress at once.
inline constexpr int node_pieces_in_flight = 4;

/// The bytes of an array per piece: at most what a buffer holds, and at least so many that the
/// latency of a link is short beside the transfer.
struct PieceLimits {
  std::int64_t most_bytes = 0, least_bytes = 0;
};

/// The pieces of one collective.
struct NodePieces {
  std::uint64_t rounds = 0;      // 0 for one rank or no elements, which needs only a copy
  bool by_shard = false;         // a piece has a part of every shard, else a part of the array
  std::int64_t part_elems = 0;   // what is split: a shard (all_gather, reduce_scatter) or the array
  std::int64_t piece_elems = 0;  // elements of the part per piece
  /// Whether the contributions of all ranks cross the links, because they are added up in rank
  /// order or not at all. Otherwise only one sum of each node does.
  bool rows_of_ranks = false;
  /// Whether an all_reduce or reduce between the nodes consists of a reduce_scatter and a gather.
  /// Otherwise every node gets the sums of all nodes in one step, which moves more data between
  /// more than two nodes, but needs one latency less.
  bool two_steps = false;

  /// Elements of piece `round`, counted from 0, within the part.
  std::int64_t first(std::uint64_t round) const {
    return static_cast<std::int64_t>(round) * piece_elems;
  }
  std::int64_t elems(std::uint64_t round) const {
    const std::int64_t left = part_elems - first(round);
    return left < piece_elems ? left : piece_elems;
  }
};

/// The pieces of `c` in a group of `size` ranks on `nodes` nodes. `limits.most_bytes` must hold one
/// element of each rank. Pure, and the same on all ranks because it reads no addresses.
NodePieces plan_node_pieces(const Collective& c, int size, int nodes, Reductions reductions,
                            const PieceLimits& limits);

}  // namespace shardmark
