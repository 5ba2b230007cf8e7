// SPDX-License-Identifier: Apache-2.0
// Which of the back-end mpi's collectives may be given addresses of a device: where MPI takes them,
// and nothing of the collective is done by us on the host.
#pragma once

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// Whether this MPI's non-blocking collectives take addresses of a CUDA device, as it says itself
/// while it runs: MPICH's may, and does where it was built and started so (MPIR_CVAR_ENABLE_GPU).
/// Open MPI's extension speaks of its blocking collectives only, so there it is no. Local; after
/// MPI_Init. Throws CommError.
bool mpi_takes_device_buffers();

/// Local. Whether MPI alone touches the buffers of `c` on this rank: no sum of ours (16 bits,
/// `ordered`), no division of an average, no packing, no copy.
bool left_to_mpi(const Collective& c, int rank, int size, const MpiOptions& options);

}  // namespace shardmark
