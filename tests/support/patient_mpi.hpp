// SPDX-License-Identifier: Apache-2.0
// Collectives of MPI that leave the core to other ranks while they wait. MPI's own spin, and with
// more ranks than cores each of them takes time slices of the scheduler, a thousand times as long
// as what it does. Every program of MPI tests calls these in place of MPI's own.
#pragma once

#include <mpi.h>

namespace shardmark::test::patient {

/// Each is collective, and does and returns what the function of MPI with this name does.
int wait(MPI_Request* request);
int barrier(MPI_Comm comm);
int bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm);
int allgather(const void* own, int count, MPI_Datatype type, void* all, int each,
              MPI_Datatype all_type, MPI_Comm comm);
int allreduce(const void* own, void* sum, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int comm_dup(MPI_Comm comm, MPI_Comm* copy);
int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part);

}  // namespace shardmark::test::patient
