// SPDX-License-Identifier: Apache-2.0
// Who shares this node: ranks, cores, the host's name.
#pragma once

#include <string>

#include <mpi.h>

#include <comm/idle.hpp>
#include <comm/mpi/mpi_types.hpp>

namespace shardmark {

struct Node {
  std::string host;
  int ranks = 1;         // of the communicator, on this node
  int local_rank = 0;    // among them
  int cores = 1;         // in the union of their affinity masks
  int own_cores = 1;     // in this process' affinity mask
  std::string own_mask;  // "0-3,8"

  bool oversubscribed() const { return ranks > cores; }
  /// How a rank waits here: at once again, or with a short sleep where ranks outnumber cores.
  Idle idle() const { return {oversubscribed() ? oversubscribed_sleep_ns : 0}; }
};

/// The ranks of `comm` on this rank's machine, in `comm`'s order. Collective over `comm`. Machines
/// are told apart by their names, since MPI_COMM_TYPE_SHARED asks for something else: memory that
/// MPI can share. MPICH 5 on UCX can share none and leaves each rank alone. Throws CommError.
OwnedComm ranks_of_node(MPI_Comm comm);

/// Collective over `comm`. Throws CommError.
Node find_node(MPI_Comm comm);

}  // namespace shardmark
