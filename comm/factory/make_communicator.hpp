// SPDX-License-Identifier: Apache-2.0
// Chooses the back-end at run time, from the deck's `comm.backend`.
#pragma once

#include <mpi.h>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// Collective over `comm`, which stays the caller's. `self` serves one rank only, and
/// `shm` ranks of one node that can share memory. `automatic` picks `self` for one rank, `shm` if
/// all ranks can share memory, `node` if there are several nodes and one of them has several ranks,
/// and `mpi` otherwise; `backend()` of the result tells which.
/// `options` must be the same on all ranks. Throws CommError.
std::unique_ptr<Communicator> make_communicator(Backend backend, MPI_Comm comm,
                                                const CommOptions& options);

}  // namespace shardmark
