// SPDX-License-Identifier: Apache-2.0
// Chooses the back-end at run time, by the deck's `comm.backend`.
#pragma once

#include <mpi.h>

#include <comm/communicator.hpp>
#include <comm/mpi_options.hpp>

namespace shardmark {

/// Collective over `comm`. `backend`: `self` (one rank only), `mpi`, or `auto`: self for one rank,
/// else mpi. `options` must agree on all ranks. Throws CommError.
std::unique_ptr<Communicator> make_communicator(std::string_view backend, MPI_Comm comm,
                                                const MpiOptions& options);

}  // namespace shardmark
