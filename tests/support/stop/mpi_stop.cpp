// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_STOP="RANK NTH SIGNAL FILE": rank RANK sends itself SIGNAL at its NTH call of MPI,
// before the call, and makes FILE first. SIGNAL 0 only writes the number of calls into FILE, at
// MPI_Finalize. MPI_Test counts only when it finds something done, so that
// the count does not depend on how often a rank looks.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <mpi.h>

#include <tests/support/preload/rank.hpp>

namespace {

struct Choice {
  int rank = -1, signal = 0;
  long nth = 0;
  char file[400] = "";
};

const Choice& choice() {
  static const Choice chosen = [] {
    Choice c;
    if (const char* text = std::getenv("SHARDMARK_TEST_STOP"))
      if (std::sscanf(text, "%d %ld %d %399s", &c.rank, &c.nth, &c.signal, c.file) != 4)
        std::abort();
    return c;
  }();
  return chosen;
}

std::atomic<long> calls{0};

void make_file() {
  std::FILE* file = std::fopen(choice().file, "w");
  if (file == nullptr) std::abort();
  std::fprintf(file, "%ld", calls.load());
  std::fclose(file);
}

void passed() {
  if (shardmark::test::preload::launched_rank() != choice().rank) return;
  if (++calls != choice().nth || choice().signal == 0) return;
  make_file();
  (void)std::raise(choice().signal);
}

}  // namespace

// A function of MPI with these parameters and arguments.
#define SHARDMARK_TEST_STOP_AT(name, parameters, arguments) \
  int MPI_##name parameters {                               \
    passed();                                               \
    return PMPI_##name arguments;                           \
  }

extern "C" {

SHARDMARK_TEST_STOP_AT(Init_thread, (int* a, char*** b, int c, int* d), (a, b, c, d))
SHARDMARK_TEST_STOP_AT(Comm_dup, (MPI_Comm a, MPI_Comm* b), (a, b))
SHARDMARK_TEST_STOP_AT(Comm_free, (MPI_Comm * a), (a))
SHARDMARK_TEST_STOP_AT(Comm_split, (MPI_Comm a, int b, int c, MPI_Comm* d), (a, b, c, d))
SHARDMARK_TEST_STOP_AT(Barrier, (MPI_Comm a), (a))
SHARDMARK_TEST_STOP_AT(Bcast, (void* a, int b, MPI_Datatype c, int d, MPI_Comm e), (a, b, c, d, e))
SHARDMARK_TEST_STOP_AT(Allreduce,
                       (const void* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f),
                       (a, b, c, d, e, f))
SHARDMARK_TEST_STOP_AT(Allgather,
                       (const void* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f,
                        MPI_Comm g),
                       (a, b, c, d, e, f, g))
SHARDMARK_TEST_STOP_AT(Isend,
                       (const void* a, int b, MPI_Datatype c, int d, int e, MPI_Comm f,
                        MPI_Request* g),
                       (a, b, c, d, e, f, g))
SHARDMARK_TEST_STOP_AT(Irecv,
                       (void* a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request* g),
                       (a, b, c, d, e, f, g))
SHARDMARK_TEST_STOP_AT(Wait, (MPI_Request * a, MPI_Status* b), (a, b))
SHARDMARK_TEST_STOP_AT(Cancel, (MPI_Request * a), (a))
SHARDMARK_TEST_STOP_AT(Ibarrier, (MPI_Comm a, MPI_Request* b), (a, b))
SHARDMARK_TEST_STOP_AT(Ibcast, (void* a, int b, MPI_Datatype c, int d, MPI_Comm e, MPI_Request* f),
                       (a, b, c, d, e, f))
SHARDMARK_TEST_STOP_AT(Iallreduce,
                       (const void* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f,
                        MPI_Request* g),
                       (a, b, c, d, e, f, g))
SHARDMARK_TEST_STOP_AT(Iallgather,
                       (const void* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f,
                        MPI_Comm g, MPI_Request* h),
                       (a, b, c, d, e, f, g, h))
SHARDMARK_TEST_STOP_AT(Ireduce_scatter_block,
                       (const void* a, void* b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f,
                        MPI_Request* g),
                       (a, b, c, d, e, f, g))
SHARDMARK_TEST_STOP_AT(Ireduce,
                       (const void* a, void* b, int c, MPI_Datatype d, MPI_Op e, int f, MPI_Comm g,
                        MPI_Request* h),
                       (a, b, c, d, e, f, g, h))
SHARDMARK_TEST_STOP_AT(File_open, (MPI_Comm a, const char* b, int c, MPI_Info d, MPI_File* e),
                       (a, b, c, d, e))

int MPI_Finalize() {
  passed();
  if (choice().signal == 0 && shardmark::test::preload::launched_rank() == choice().rank)
    make_file();
  return PMPI_Finalize();
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const int result = PMPI_Test(request, done, status);
  if (*done != 0) passed();
  return result;
}

}  // extern "C"
