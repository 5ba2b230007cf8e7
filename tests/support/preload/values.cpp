// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_VALUES="CALL RANK BIT FIRST COUNT": flips bit BIT of one 32-bit word that the
// non-blocking collective CALL ("MPI_Iallgather") delivers to rank RANK (-1: to all), in COUNT
// calls from number FIRST on. It is the first word in the first of these calls, the last one in the
// second, and any one in the others, alike on all ranks. Calls of fewer than 64 bytes are neither
// counted nor changed. SHARDMARK_TEST_VALUES_LOG names a file that gets a byte for each call that
// was changed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>

#include "hangs.hpp"
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

std::map<MPI_Request, char*>& open_calls() {  // and the word to change
  static std::map<MPI_Request, char*> calls;
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
  if (seen < choice().first || seen >= choice().first + choice().count) return;
  const long changed = seen - choice().first, words = elems * bytes / 4;
  const long word = changed == 1 ? words - 1 : changed * 7919 % words;
  open_calls()[request] = static_cast<char*>(received) + 4 * word;
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
  shardmark::test::preload::hang_in("MPI_Iallgather");
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

int MPI_Iallgatherv(const void* s, int sn, MPI_Datatype st, void* r, const int* rn, const int* at,
                    MPI_Datatype rt, MPI_Comm comm, MPI_Request* request) {
  const int status = PMPI_Iallgatherv(s, sn, st, r, rn, at, rt, comm, request);
  note("MPI_Iallgatherv", *request, r, std::accumulate(rn, rn + group_size(comm), 0L), rt);
  return status;
}

int MPI_Ialltoallv(const void* s, const int* sn, const int* s_at, MPI_Datatype st, void* r,
                   const int* rn, const int* r_at, MPI_Datatype rt, MPI_Comm comm,
                   MPI_Request* request) {
  const int status = PMPI_Ialltoallv(s, sn, s_at, st, r, rn, r_at, rt, comm, request);
  note("MPI_Ialltoallv", *request, r, std::accumulate(rn, rn + group_size(comm), 0L), rt);
  return status;
}

int MPI_Ireduce(const void* s, void* r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  const int status = PMPI_Ireduce(s, r, n, t, op, root, comm, request);
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  if (rank == root) note("MPI_Ireduce", *request, r, n, t);
  return status;
}

int MPI_Igather(const void* s, int sn, MPI_Datatype st, void* r, int rn, MPI_Datatype rt, int root,
                MPI_Comm comm, MPI_Request* request) {
  const int status = PMPI_Igather(s, sn, st, r, rn, rt, root, comm, request);
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  if (rank == root) note("MPI_Igather", *request, r, static_cast<long>(rn) * group_size(comm), rt);
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
  if (const char* log = std::getenv("SHARDMARK_TEST_VALUES_LOG"))
    if (std::FILE* file = std::fopen(log, "a")) {
      std::fputc('x', file);
      std::fclose(file);
    }
  return result;
}

}  // extern "C"
