// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <comm/mpi/device_buffers.hpp>
#include <comm/mpi/mpi_calls.hpp>
#include <comm/mpi/mpi_check.hpp>

namespace shardmark {

#if defined(MPIX_GPU_SUPPORT_CUDA)
bool mpi_takes_device_buffers() {
  int running = 0, supported = 0;
  SHARDMARK_MPI(MPI_Initialized(&running));
  if (!running) return false;  // MPICH ends the process if it is asked now
  SHARDMARK_MPI(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported));
  return supported != 0;
}
#else
bool mpi_takes_device_buffers() {
  return false;
}
#endif

bool done_by_mpi_alone(const Collective& c, int rank, int size, const CommOptions& options) {
  switch (route_of(c, size, options).kind) {
    case RouteKind::barrier:
    case RouteKind::all_to_all:
    case RouteKind::all_to_all_parts:
    case RouteKind::all_gather: return true;
    case RouteKind::broadcast: return rank != c.root || c.send == c.recv;
    case RouteKind::all_reduce:
    case RouteKind::reduce: return c.reduction != Reduction::average;
    default: return false;
  }
}

}  // namespace shardmark
