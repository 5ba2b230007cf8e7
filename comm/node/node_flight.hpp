// SPDX-License-Identifier: Apache-2.0
// One collective in flight in two levels. Each piece goes through these stages, which the ranks of
// a node publish to each other in a shared window (comm/shm/shm_window.hpp):
//   write     each rank puts what others need into its buffer
//   exchange  each rank adds up its part of what the ranks of its node wrote, and exchanges it with
//             the drivers of the same rails on the other nodes; the result goes to its buffer
//   read      each rank takes what it needs from the buffers of its node
// Several pieces are in progress at once, so that MPI transfers one while the ranks write, add up
// or read others. Across the nodes each rank moves its own part, and each byte once.
//
// Sums: `native` adds up the ranks of a node in rank order and then the nodes in their order, so
// the bits do not depend on the size of the pieces. `ordered`, and 16-bit types always, send the
// contributions of all ranks and add them up in rank order.
//
// An all_to_all adds up nothing: the exchange delivers what each rank has sent to this one.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <comm/node/node_links.hpp>
#include <comm/node/node_map.hpp>
#include <comm/shm/shm_window.hpp>

namespace shardmark {

/// Memory of this rank for the pieces in progress. It grows to what the largest piece needs and is
/// used again by the next collective.
struct PieceMemory {
  /// What one call between the nodes sends and receives, in bytes by node. It must exist until the
  /// call is complete.
  struct Transfer {
    std::vector<int> send_bytes, send_from, recv_bytes, recv_to;
  };
  std::vector<std::byte> inbox, outbox;
  std::vector<Transfer> transfers;         // by rail
  std::vector<MPI_Request> first, second;  // by rail
};

/// The group of a NodeCommunicator: what its flights share.
struct NodeGroup {
  NodeMap map;
  std::vector<Rail> rails;
  std::unique_ptr<ShmWindow> window;
  PieceLimits limits;
  std::array<PieceMemory, node_pieces_in_flight> memory;

  /// The bytes of a buffer: the contribution of a rank, and behind it the results that the rank has
  /// for the others.
  static std::int64_t result_bytes(const NodeMap& map, const PieceLimits& limits);
};

/// The flight of NodeCommunicator's FlightQueue. No function blocks; `begin` and `advance` make MPI
/// calls in the same order on all drivers of a rail.
class NodeFlight {
 public:
  /// `group` and `moved`, which counts what is moved, must outlive the flight.
  NodeFlight(const Collective& c, const NodePieces& pieces, NodeGroup& group, Moved& moved);

  /// Reserves the rounds. Called once per flight, in the order of the lane.
  void begin();
  /// Performs one stage of one piece if it is possible now; otherwise returns false. Throws
  /// CommError, also when another rank of this node is in a different collective.
  bool advance();
  bool done() const { return read_ == pieces_.rounds; }

 private:
  using Stage = ShmWindow::Stage;

  bool may_write() const;
  bool may_exchange() const;
  bool may_read() const;
  void write();
  void read();
  void check_signatures() const;

  // In an all_gather the result of a rank is one block for each rail that it drives and each node:
  // rail after rail, in each the nodes one after the other. Calls visit(rail, node, part, at) for
  // the blocks of rank `local` of this node: `part` of the shards of the ranks of `node`, which
  // begins at element `at` of the result.
  template<class Visit>
  void for_gathered(std::uint64_t round, int local, Visit&& visit) const {
    std::int64_t at = 0;
    for (const int rail : map().rails_of(local))
      for (int node = 0; node < map().nodes(); ++node) {
        const Part part = map().rail(rail, map().locals(node) * pieces_.elems(round));
        visit(rail, node, part, at);
        at += part.elems;
      }
  }

  // The exchange of one piece, in node_exchange.cpp.
  void start_exchange(std::uint64_t round);
  void turn_exchange(std::uint64_t round);
  bool complete(std::uint64_t round, bool second);
  void gather(std::uint64_t round);
  void broadcast(std::uint64_t round);
  void start_sums(std::uint64_t round);
  void lay_out_sums(std::uint64_t round);
  // i is the index of a rail.
  void send_sums(std::uint64_t round, std::size_t i);
  const std::byte* row(std::uint64_t round, std::size_t i, int node, int local) const;
  void add_up(std::uint64_t round, std::size_t i);
  void hand_out(std::uint64_t round, std::size_t i);
  void spread(std::uint64_t round, std::size_t i);
  void fill_rows(std::byte* to, std::uint64_t round, const Part& part);
  const void* contribution(int local, std::uint64_t round, std::int64_t at) const;
  Part part_of(std::uint64_t round, int rail, int node) const;
  bool to_one_node() const { return pieces_.two_steps || scatters(); }
  // Whether each rank receives something else; then the exchange delivers it.
  bool scatters() const { return c_.op == Op::reduce_scatter || c_.op == Op::all_to_all; }

  int rows(int node) const { return pieces_.rows_of_ranks ? map().locals(node) : 1; }
  std::int64_t bytes(std::int64_t elems) const { return elems * dtype_bytes(c_.dtype); }
  const NodeMap& map() const { return group_.map; }
  PieceMemory& memory(std::uint64_t round) const {
    return group_.memory[static_cast<std::size_t>((base_ + round) % node_pieces_in_flight)];
  }
  std::byte* buffer(int local, std::uint64_t round) const;
  std::byte* result(int local, std::uint64_t round) const;
  void put(std::byte* to, std::int64_t from, std::int64_t elems) const;
  void deliver(std::int64_t to, const void* from, std::int64_t elems) const;
  void deliver_shards(std::uint64_t round, int node, Part part, const std::byte* from) const;

  Collective c_;
  NodePieces pieces_;
  NodeGroup& group_;
  Moved& moved_;
  int root_node_ = -1;
  bool receives_;
  std::vector<const void*> rows_;
  std::uint64_t base_ = 0;  // rounds of all earlier collectives
  // Pieces of which this rank finished writing; started the exchange; finished its first step; has
  // published the result; finished reading.
  std::uint64_t written_ = 0, started_ = 0, turned_ = 0, finished_ = 0, read_ = 0;
};

}  // namespace shardmark
