// SPDX-License-Identifier: Apache-2.0
// The node of this rank: its ranks, its cores and its host name.
#pragma once

#include <string>
#include <vector>

#include <mpi.h>

#include <comm/idle.hpp>
#include <comm/mpi/mpi_types.hpp>

namespace shardmark {

/// The ranks of one node and the cores that they may use.
struct Node {
  std::string host;
  int ranks = 1;              // ranks of the communicator on this node
  int local_rank = 0;         // this rank's number among them
  int cores = 1;              // in the union of their affinity masks
  int own_cores = 1;          // in this process's affinity mask
  std::string own_mask;       // "0-3,8"
  bool unbound = true;        // each rank of the node, and each of its threads, may use all cores
  bool shares_cores = false;  // with ranks of other nodes: SHARDMARK_SHARED_CORES, of ci/hosts
  bool yields = true;         // what waits leaves its core by yielding; if not, it has to sleep

  bool oversubscribed() const { return shares_cores || ranks > cores; }
  /// How a rank of this node waits: it sleeps for a short time if there are more ranks than cores
  /// and no other way to leave its core.
  Idle idle() const { return {oversubscribed() && !yields ? oversubscribed_sleep_ns : 0}; }
};

/// The node of each rank of `comm`, as the lowest rank on it. Ranks with different values of `part`
/// count as ranks of different nodes. Collective over `comm`. Throws CommError.
std::vector<int> nodes_of_ranks(MPI_Comm comm, int part = 0);

/// The ranks of `comm` on this rank's machine, in the order of `comm`. Collective over `comm`.
/// Machines are identified by name and boot id. MPI_COMM_TYPE_SHARED is not used because it means
/// ranks between which MPI can share memory, and MPICH 5 on UCX cannot share memory at all. Throws
/// CommError.
OwnedComm ranks_of_node(MPI_Comm comm);

/// Describes this rank's node. Collective over `comm`. Throws CommError.
Node find_node(MPI_Comm comm);

/// Binds this process, and the threads that it starts later, to one core if several ranks have to
/// share each core of the node and nobody has bound them; then `node` has that core. The scheduler
/// may leave neighbouring ranks on one core for a whole run. They get different ones. Does nothing
/// where the ranks cannot be spread evenly. Every rank of the node must call it.
void spread_over_cores(Node& node);

}  // namespace shardmark
