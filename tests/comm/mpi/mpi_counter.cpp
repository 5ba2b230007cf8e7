// SPDX-License-Identifier: Apache-2.0
// Every MPI function that ShardMark's communication could use: the call is counted and passed on to
// the PMPI_ function.
#include <mpi.h>

#include <tests/comm/mpi/mpi_counter.hpp>

namespace shardmark::testing {
namespace {

std::map<std::string, std::int64_t>& counts() {
  static std::map<std::string, std::int64_t> the_counts;
  return the_counts;
}

}  // namespace

void reset_mpi_counts() {
  counts().clear();
}
std::map<std::string, std::int64_t> mpi_counts() {
  return counts();
}
void count(const char* name) {
  ++counts()[name];
}

}  // namespace shardmark::testing

using shardmark::testing::count;

extern "C" {
#define COUNTED(name, parameters, arguments) \
  int MPI_##name parameters {                \
    count("MPI_" #name);                     \
    return PMPI_##name arguments;            \
  }

// Non-blocking collectives.
COUNTED(Ibarrier, (MPI_Comm c, MPI_Request* r), (c, r))
COUNTED(Ibcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r),
        (b, n, t, root, c, r))
COUNTED(Iallgather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, c, r))
COUNTED(Iallgatherv,
        (const void* s, int n, MPI_Datatype t, void* b, const int* m, const int* d, MPI_Datatype u,
         MPI_Comm c, MPI_Request* r),
        (s, n, t, b, m, d, u, c, r))
COUNTED(Iallreduce,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, c, r))
COUNTED(Ireduce,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c,
         MPI_Request* r),
        (s, b, n, t, o, root, c, r))
COUNTED(Ireduce_scatter_block,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, c, r))
COUNTED(Ireduce_scatter,
        (const void* s, void* b, const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c,
         MPI_Request* r),
        (s, b, n, t, o, c, r))
COUNTED(Ialltoall,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, c, r))
COUNTED(Ialltoallv,
        (const void* s, const int* n, const int* d, MPI_Datatype t, void* b, const int* m,
         const int* e, MPI_Datatype u, MPI_Comm c, MPI_Request* r),
        (s, n, d, t, b, m, e, u, c, r))
COUNTED(Igather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, root, c, r))
COUNTED(Iscatter,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, root, c, r))
// Blocking collectives and messages, which a lane must not use.
COUNTED(Barrier, (MPI_Comm c), (c))
COUNTED(Bcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
COUNTED(Allgather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),
        (s, n, t, b, m, u, c))
COUNTED(Allreduce, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (s, b, n, t, o, c))
COUNTED(Reduce, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
        (s, b, n, t, o, root, c))
COUNTED(Reduce_scatter_block, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (s, b, n, t, o, c))
COUNTED(Alltoall,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),
        (s, n, t, b, m, u, c))
COUNTED(Gather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root,
         MPI_Comm c),
        (s, n, t, b, m, u, root, c))
COUNTED(Send, (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c),
        (b, n, t, to, tag, c))
COUNTED(Recv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status* s),
        (b, n, t, from, tag, c, s))
COUNTED(Isend, (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r),
        (b, n, t, to, tag, c, r))
COUNTED(Irecv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r),
        (b, n, t, from, tag, c, r))
#undef COUNTED
}
