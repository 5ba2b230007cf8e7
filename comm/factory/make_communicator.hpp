// SPDX-License-Identifier: Apache-2.0
// Chooses the back-end at run time, by the deck's `comm.backend`.
#pragma once

#include <mpi.h>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// Collective over `comm`. `backend`: `self` (one rank only), `shm` (ranks of one node that can
/// share memory), `mpi`, or `auto`: self for one rank, else shm where it can be, else mpi; which
/// one it became says backend(). `options` must agree on all ranks. Throws CommError.
std::unique_ptr<Communicator> make_communicator(std::string_view backend, MPI_Comm comm,
                                                const MpiOptions& options);

}  // namespace shardmark
