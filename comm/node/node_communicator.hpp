// SPDX-License-Identifier: Apache-2.0
// The back-end for several nodes with several ranks each: collectives in two levels
// (comm/node/node_flight.hpp). Needs no scratch. Buffers must be in memory that the processor can
// address.
#pragma once

#include <memory>
#include <string>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/flight_queue.hpp>
#include <comm/node/node_flight.hpp>

namespace shardmark {

/// A Communicator over shared memory and MPI.
class NodeCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. Measures the links if
  /// `options` does not give the least size of a piece. Null on all ranks, with the reason in
  /// `why_not`, if the ranks of a node cannot share memory. Throws CommError.
  static std::unique_ptr<NodeCommunicator> make(MPI_Comm comm, const CommOptions& options,
                                                std::string& why_not);
  /// Collective over the group; nothing may be in flight. After an error it frees nothing.
  ~NodeCommunicator() override;

  int rank() const override { return group_.map.rank(); }
  int size() const override { return group_.map.size(); }
  Backend backend() const override { return Backend::node; }
  std::string about() const override;
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override { return queue_.test(ticket); }
  void wait(Ticket ticket) override;
  void progress() override { queue_.progress(); }
  const MovedVolume& moved() const override { return moved_; }
  /// Collective. First waits for everything in flight on this lane. A group whose ranks share a
  /// node becomes a lane of the back-end `shm`, and one without two ranks on the same node a lane
  /// of `mpi`. Throws CommError.
  std::unique_ptr<Communicator> split(int color, int key) override;

  const NodeMap& map() const { return group_.map; }

 private:
  NodeCommunicator(OwnedComm comm, const CommOptions& options, NodeMap map);

  OwnedComm comm_;
  LinkSpeed link_;  // 0 if it was not measured
  CommOptions options_;
  NodeGroup group_;
  MovedVolume moved_;
  FlightQueue<NodeFlight> queue_;
};

}  // namespace shardmark
