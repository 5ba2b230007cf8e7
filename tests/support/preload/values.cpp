// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_VALUES="CALL RANK BIT FIRST COUNT": flips bit BIT of the first 32-bit word that
// the non-blocking collective CALL ("MPI_Iallgather") delivers to rank RANK (-1: to all), in COUNT
// calls from number FIRST on. Calls of fewer than 64 bytes are neither counted nor changed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include <mpi.h>

namespace {

struct Choice {
  char call[64] = "";
  int rank = -1, bit = 0;
  long first = 1, count = 0;
};

const Choice& choice() {
  static const Choice chosen = [] {
    Choice c;
    if (const char* text = std::getenv("SHARDMARK_TEST_VALUES"))
      if (std::sscanf(text, "%63s %d %d %ld %ld", c.call, &c.rank, &c.bit, &c.first, &c.count) != 5)
        std::abort();
    return c;
  }();
  return chosen;
}

std::map<MPI_Request, void*>& open_calls() {
  static std::map<MPI_Request, void*> calls;
  return calls;
}

// Remembers a call whose result is to be changed when it is done.
void note(const char* call, MPI_Request request, void* received, long elems, MPI_Datatype type) {
  static long seen = 0;
  int bytes = 0, rank = 0;
  PMPI_Type_size(type, &bytes);
  if (std::strcmp(call, choice().call) != 0 || elems * bytes < 64) return;
  ++seen;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (choice().rank >= 0 && choice().rank != rank) return;
  if (seen >= choice().first && seen < choice().first + choice().count)
    open_calls()[request] = received;
}

int group_size(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

}  // namespace

extern "C" {

int MPI_Iallgather(const void* s, int sn, MPI_Datatype st, void* r, int rn, MPI_Datatype rt,
                   MPI_Comm comm, MPI_Request* request) {
  const int status = PMPI_Iallgather(s, sn, st, r, rn, rt, comm, request);
  note("MPI_Iallgather", *request, r, static_cast<long>(rn) * group_size(comm), rt);
  return status;
}

int MPI_Iallreduce(const void* s, void* r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  const int status = PMPI_Iallreduce(s, r, n, t, op, comm, request);
  note("MPI_Iallreduce", *request, r, n, t);
  return status;
}

int MPI_Ireduce_scatter_block(const void* s, void* r, int n, MPI_Datatype t, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  const int status = PMPI_Ireduce_scatter_block(s, r, n, t, op, comm, request);
  note("MPI_Ireduce_scatter_block", *request, r, n, t);
  return status;
}

int MPI_Ibcast(void* b, int n, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request* request) {
  const int status = PMPI_Ibcast(b, n, t, root, comm, request);
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  if (rank != root) note("MPI_Ibcast", *request, b, n, t);
  return status;
}

int MPI_Ialltoall(const void* s, int sn, MPI_Datatype st, void* r, int rn, MPI_Datatype rt,
                  MPI_Comm comm, MPI_Request* request) {
  const int status = PMPI_Ialltoall(s, sn, st, r, rn, rt, comm, request);
  note("MPI_Ialltoall", *request, r, static_cast<long>(rn) * group_size(comm), rt);
  return status;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const MPI_Request before = *request;
  const int result = PMPI_Test(request, done, status);
  if (*done == 0) return result;
  const auto found = open_calls().find(before);
  if (found == open_calls().end()) return result;
  std::uint32_t word = 0;
  std::memcpy(&word, found->second, sizeof word);
  word ^= std::uint32_t{1} << choice().bit;
  std::memcpy(found->second, &word, sizeof word);
  open_calls().erase(found);
  return result;
}

}  // extern "C"
