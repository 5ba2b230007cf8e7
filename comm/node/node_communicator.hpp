// SPDX-License-Identifier: Apache-2.0
// The back-end for several nodes with several ranks each: collectives in two levels
// (comm/node/node_flight.hpp). Needs no scratch. Buffers must be in memory that the processor can
// address.
#pragma once

#include <memory>
#include <string>

#include <comm/mpi/queued_communicator.hpp>
#include <comm/node/node_flight.hpp>

namespace shardmark {

/// A Communicator over shared memory and MPI.
class NodeCommunicator : public QueuedCommunicator<NodeFlight> {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. Measures the links if
  /// `options` does not give the least size of a piece. Null on all ranks, with the reason in
  /// `why_not`, if the ranks of a node cannot share memory. Throws CommError.
  static std::unique_ptr<NodeCommunicator> make(MPI_Comm comm, const CommOptions& options,
                                                std::string& why_not);
  ~NodeCommunicator() override;

  int rank() const override { return group_.map.rank(); }
  int size() const override { return group_.map.size(); }
  Backend backend() const override { return Backend::node; }
  std::string about() const override;
  Ticket start(const Collective& c) override;

  const NodeMap& map() const { return group_.map; }

 private:
  NodeCommunicator(OwnedComm comm, const CommOptions& options, NodeMap map);
  /// A group whose ranks share a node becomes a lane of the back-end `shm`, and one without two
  /// ranks on the same node a lane of `mpi`.
  std::unique_ptr<Communicator> group_of(OwnedComm comm) const override;

  LinkSpeed link_;  // 0 if it was not measured
  NodeGroup group_;
};

}  // namespace shardmark
