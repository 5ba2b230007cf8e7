// SPDX-License-Identifier: Apache-2.0
// The MPI library that this process runs with: its name, and how it is used.
// Which collectives of the back-end `mpi` may be given device addresses: those that an MPI library
// with device support carries out alone, without further work on the host.
// MPI settings that were found by measurement and must be made before MPI starts. They only affect
// speed: without them a reduce_scatter takes up to twice as long, and so does every collective in
// two levels over TCP.
#pragma once

#include <string>
#include <string_view>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// "MPICH Version: 4.0.2", "Open MPI v4.1.4": the first line of MPI_Get_library_version, up to the
/// first comma, without control characters. It works before MPI_Init. Throws CommError.
std::string mpi_library();

/// Returns the name that mpi_library() finds in the first `size` characters of `text`. Some
/// releases of Open MPI include the terminating NUL in the size.
std::string mpi_library_name(const char* text, int size);

/// Whether the library of this name reads MPICH's variables: MPICH, Cray MPICH, MVAPICH and
/// Intel MPI are built from the same sources.
bool is_of_mpich(std::string_view library);

/// Whether the non-blocking collectives of this MPI library accept CUDA device addresses, as the
/// library reports at run time. MPICH does if it was built with support and started with
/// MPIR_CVAR_ENABLE_GPU. Open MPI reports only its blocking collectives, so for it the answer is
/// no, and so it is before MPI_Init. Not collective. Throws CommError.
bool mpi_takes_device_buffers();

/// Whether only MPI accesses the buffers of `c` on this rank. That is not so
/// if ShardMark itself sums (16-bit types, `ordered`), divides an average, packs, or copies
/// locally. Pure.
bool done_by_mpi_alone(const Collective& c, int rank, int size, const CommOptions& options);

/// Selects MPICH's algorithms that move the least data, and on several nodes that only TCP joins
/// the protocol of UCX without handshakes, through the environment variables of MPICH and UCX. A
/// variable that is already set stays. Under another MPI library than MPICH and its relatives
/// nothing is set. Not collective; call it before MPI_Init. Throws CommError.
void tune_mpich();

/// Whether the ranks run on several nodes whose network has no remote memory access, as far as the
/// variables of the launcher and the system tell. Not collective; ranks may differ.
bool only_tcp_between_nodes();

}  // namespace shardmark
