// SPDX-License-Identifier: Apache-2.0
// Every MPI function that ShardMark's communication could use: the call is counted and passed on to
// the PMPI_ function.
#include <numeric>

#include <mpi.h>

#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/patient_mpi.hpp>

namespace shardmark::test {
namespace {

std::map<std::string, std::int64_t>& counts() {
  static std::map<std::string, std::int64_t> the_counts;
  return the_counts;
}
std::map<std::string, MpiData>& data() {
  static std::map<std::string, MpiData> the_data;
  return the_data;
}

// The elements of one item of a type: a type that is made of another one is resized or contiguous.
std::int64_t elems_of(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner == MPI_COMBINER_NAMED) return 1;
  int count = 1;
  MPI_Aint bounds[2] = {};
  MPI_Datatype inner = MPI_DATATYPE_NULL;
  PMPI_Type_get_contents(type, integers, addresses, types, &count, bounds, &inner);
  const std::int64_t elems = (integers == 1 ? count : 1) * elems_of(inner);
  PMPI_Type_get_envelope(inner, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_NAMED) PMPI_Type_free(&inner);
  return elems;
}

MpiData items(std::int64_t count, MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return {count * elems_of(type), count * bytes};
}

std::int64_t ranks(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

std::int64_t sum(const int* counts, MPI_Comm comm) {
  return std::accumulate(counts, counts + ranks(comm), std::int64_t{0});
}

}  // namespace

void reset_mpi_counts() {
  counts().clear();
  data().clear();
}
std::map<std::string, std::int64_t> mpi_counts() {
  return counts();
}
std::map<std::string, MpiData> mpi_data() {
  return data();
}
void count(const char* name) {
  ++counts()[name];
}
void count(const char* name, const MpiData& carried) {
  count(name);
  data()[name].elems += carried.elems;
  data()[name].bytes += carried.bytes;
}

}  // namespace shardmark::test

using shardmark::test::count;
using shardmark::test::items;
using shardmark::test::ranks;
using shardmark::test::sum;

extern "C" {
#define COUNTED(name, parameters, arguments, ...)   \
  int MPI_##name parameters {                       \
    count("MPI_" #name __VA_OPT__(, ) __VA_ARGS__); \
    return PMPI_##name arguments;                   \
  }

// A blocking call is counted and passed on to the one in patient_mpi.hpp, which yields the core.
#define COUNTED_WAIT(name, function, parameters, arguments) \
  int MPI_##name parameters {                               \
    count("MPI_" #name);                                    \
    return shardmark::test::patient::function arguments;    \
  }

// Non-blocking collectives.
COUNTED(Ibarrier, (MPI_Comm c, MPI_Request* r), (c, r), {})
COUNTED(Ibcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r),
        (b, n, t, root, c, r), items(n, t))
COUNTED(Iallgather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, c, r), items(m* ranks(c), u))
COUNTED(Iallgatherv,
        (const void* s, int n, MPI_Datatype t, void* b, const int* m, const int* d, MPI_Datatype u,
         MPI_Comm c, MPI_Request* r),
        (s, n, t, b, m, d, u, c, r), items(sum(m, c), u))
COUNTED(Iallreduce,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, c, r), items(n, t))
COUNTED(Ireduce,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c,
         MPI_Request* r),
        (s, b, n, t, o, root, c, r), items(n, t))
COUNTED(Ireduce_scatter_block,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, c, r), items(n* ranks(c), t))
COUNTED(Ireduce_scatter,
        (const void* s, void* b, const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c,
         MPI_Request* r),
        (s, b, n, t, o, c, r), items(sum(n, c), t))
COUNTED(Ialltoall,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, c, r), items(n* ranks(c), t))
COUNTED(Ialltoallv,
        (const void* s, const int* n, const int* d, MPI_Datatype t, void* b, const int* m,
         const int* e, MPI_Datatype u, MPI_Comm c, MPI_Request* r),
        (s, n, d, t, b, m, e, u, c, r), items(sum(n, c), t))
COUNTED(Igather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, root, c, r), items(n, t))
COUNTED(Iscatter,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c,
         MPI_Request* r),
        (s, n, t, b, m, u, root, c, r), items(m, u))
// Blocking collectives and messages, which a lane must not use.
COUNTED_WAIT(Barrier, barrier, (MPI_Comm c), (c))
COUNTED_WAIT(Bcast, bcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c),
             (b, n, t, root, c))
COUNTED_WAIT(Allgather, allgather,
             (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),
             (s, n, t, b, m, u, c))
COUNTED_WAIT(Allreduce, allreduce,
             (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
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
