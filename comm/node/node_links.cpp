// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <comm/node/node_links.hpp>
#include <core/cache_line.hpp>
#include <core/clock.hpp>
#include <core/plan/collective_scratch.hpp>

namespace shardmark {

namespace {

OwnedComm make_comm(MPI_Comm parent, const std::vector<int>& ranks, int tag) {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  SHARDMARK_MPI(MPI_Comm_group(parent, &all));
  SHARDMARK_MPI(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some));
  MPI_Comm comm = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_create_group(parent, some, tag, &comm));
  SHARDMARK_MPI(MPI_Group_free(&some));
  SHARDMARK_MPI(MPI_Group_free(&all));
  return OwnedComm(comm);
}

// Each rank sends `bytes` bytes to the next node and receives as many from the previous one,
// several times in a row. Returns the microseconds that this rank needs for one time.
double time_shift(MPI_Comm group, const NodeMap& map, const std::vector<Rail>& rails,
                  std::vector<char>& from, std::vector<char>& to, int bytes, int exchanges,
                  const Idle& idle) {
  const int next = (map.node() + 1) % map.nodes();
  const int previous = (map.node() + map.nodes() - 1) % map.nodes();
  std::array<MPI_Request, 2> both{};
  SHARDMARK_MPI(MPI_Ibarrier(group, both.data()));
  wait_all(both.data(), 1, idle);
  const std::int64_t begin_ns = monotonic_ns();
  for (int i = 0; i < exchanges; ++i)
    for (const Rail& rail : rails) {
      SHARDMARK_MPI(MPI_Irecv(to.data(), bytes, MPI_BYTE, previous, 0, rail.first.get(), &both[0]));
      SHARDMARK_MPI(MPI_Isend(from.data(), bytes, MPI_BYTE, next, 0, rail.first.get(), &both[1]));
      wait_all(both.data(), 2, idle);
    }
  return static_cast<double>(monotonic_ns() - begin_ns) * 1e-3 / exchanges;
}

}  // namespace

std::vector<Rail> make_rails(MPI_Comm group, const NodeMap& map) {
  std::vector<Rail> rails;
  for (const int number : map.rails_of(map.local())) {
    Rail rail;
    rail.number = number;
    if (map.nodes() > 1) {
      std::vector<int> members;
      members.reserve(static_cast<std::size_t>(map.nodes()));
      for (int n = 0; n < map.nodes(); ++n)
        members.push_back(map.ranks(n)[static_cast<std::size_t>(map.driver(n, number))]);
      rail.first = make_comm(group, members, 2 * number);
      rail.second = make_comm(group, members, 2 * number + 1);
    }
    rails.push_back(std::move(rail));
  }
  return rails;
}

std::int64_t LinkSpeed::piece_bytes() const {
  constexpr double latencies = 8;
  constexpr std::int64_t least = 16 << 10, most = 1 << 20;
  std::int64_t bytes = least;
  while (bytes < most && static_cast<double>(bytes) < latencies * latency_us * bytes_per_us)
    bytes *= 2;
  return bytes;
}

LinkSpeed measure_links(MPI_Comm group, const NodeMap& map, const std::vector<Rail>& rails,
                        const Idle& idle) {
  LinkSpeed link;
  if (map.nodes() == 1) return link;
  constexpr int large_bytes = 1 << 20, turns = 5, exchanges = 4;
  const int part_bytes = large_bytes / map.rails();
  std::vector<char> from(static_cast<std::size_t>(part_bytes) + 1), to(from.size());
  time_shift(group, map, rails, from, to, part_bytes, 1, idle);  // opens the connections
  // Ranks leave a barrier one after the other, which matters less for several exchanges in a row:
  // from the second one on, all go at the same pace.
  std::array<double, turns + 1> us{};
  for (int turn = 0; turn < turns; ++turn)
    us[turn] = time_shift(group, map, rails, from, to, 1, exchanges, idle);
  us[turns] = time_shift(group, map, rails, from, to, part_bytes, 1, idle);
  // The slowest rank of the group counts in each turn.
  MPI_Request most = MPI_REQUEST_NULL;
  SHARDMARK_MPI(
      MPI_Iallreduce(MPI_IN_PLACE, us.data(), turns + 1, MPI_DOUBLE, MPI_MAX, group, &most));
  wait_all(&most, 1, idle);
  link.latency_us = *std::min_element(us.begin(), us.end() - 1);
  link.bytes_per_us = large_bytes / std::max(1.0, us[turns] - link.latency_us);
  return link;
}

NodePieces plan_node_pieces(const Collective& c, int size, int nodes, Reductions reductions,
                            const PieceLimits& limits) {
  NodePieces pieces;
  if (c.op == Op::barrier) {
    pieces.rounds = size > 1 ? 1 : 0;
    return pieces;
  }
  if (size == 1 || c.elems == 0) return pieces;
  pieces.by_shard = has_parts(c.op);
  pieces.part_elems = pieces.by_shard ? c.elems / size : c.elems;
  pieces.rows_of_ranks =
      c.op == Op::all_to_all || (is_reduction(c.op) && sums_in_rank_order(c.dtype, reductions));

  // Enough pieces that all are in progress at once, unless they would become too small.
  const std::int64_t elem_bytes = dtype_bytes(c.dtype), row_elems = pieces.by_shard ? size : 1;
  const std::int64_t wanted_bytes =
      std::min(std::max(c.elems * elem_bytes / node_pieces_in_flight, limits.least_bytes),
               limits.most_bytes);
  std::int64_t piece = std::max<std::int64_t>(1, wanted_bytes / elem_bytes / row_elems);
  const std::int64_t line_elems = cache_line_bytes / elem_bytes * (pieces.by_shard ? 1 : size);
  if (piece > line_elems) piece -= piece % line_elems;
  pieces.piece_elems = std::min(piece, pieces.part_elems);
  pieces.rounds =
      static_cast<std::uint64_t>((pieces.part_elems + pieces.piece_elems - 1) / pieces.piece_elems);
  const bool sums_everywhere = c.op == Op::all_reduce || c.op == Op::reduce;
  pieces.two_steps = sums_everywhere && nodes > 2 &&
                     pieces.piece_elems * elem_bytes * (nodes - 2) > limits.least_bytes / 2;
  return pieces;
}

}  // namespace shardmark
