// SPDX-License-Identifier: Apache-2.0
// Which collectives of the back-end `mpi` may be given device addresses: those that an MPI library
// with device support carries out alone, without further work on the host.
#pragma once

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// Whether the non-blocking collectives of this MPI library accept CUDA device addresses, as the
/// library reports at run time. MPICH does if it was built with support and started with
/// MPIR_CVAR_ENABLE_GPU. Open MPI reports only its blocking collectives, so for it the answer is
/// no, and so it is before MPI_Init. Not collective. Throws CommError.
bool mpi_takes_device_buffers();

/// Whether only MPI accesses the buffers of `c` on this rank. That is not so
/// if ShardMark itself sums (16-bit types, `ordered`), divides an average, packs, or copies
/// locally. Pure.
bool done_by_mpi_alone(const Collective& c, int rank, int size, const CommOptions& options);

}  // namespace shardmark
