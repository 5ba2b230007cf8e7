// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <sched.h>

#include <tests/support/patient_mpi.hpp>

namespace shardmark::test::patient {
namespace {

// Whether the parts of a split are the whole communicator in its order.
bool is_a_copy(const std::vector<std::array<int, 2>>& all) {
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r][0] != all[0][0] || all[r][1] < all[r - 1][1]) return false;
  return all[0][0] != MPI_UNDEFINED;
}

// Waits for the collective that `start` starts.
template<class Start>
int finish(const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = start(&request);
  return code == MPI_SUCCESS ? wait(&request) : code;
}

}  // namespace

int wait(MPI_Request* request) {
  for (int done = 0;;) {
    const int code = PMPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done != 0) return code;
    sched_yield();
  }
}

int barrier(MPI_Comm comm) {
  return finish([&](MPI_Request* r) { return PMPI_Ibarrier(comm, r); });
}

int bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return finish([&](MPI_Request* r) { return PMPI_Ibcast(data, count, type, root, comm, r); });
}

int allgather(const void* own, int count, MPI_Datatype type, void* all, int each,
              MPI_Datatype all_type, MPI_Comm comm) {
  return finish([&](MPI_Request* r) {
    return PMPI_Iallgather(own, count, type, all, each, all_type, comm, r);
  });
}

int allreduce(const void* own, void* sum, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return finish(
      [&](MPI_Request* r) { return PMPI_Iallreduce(own, sum, count, type, op, comm, r); });
}

int comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  return finish([&](MPI_Request* r) { return PMPI_Comm_idup(comm, copy, r); });
}

int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  int size = 0;
  if (const int code = PMPI_Comm_size(comm, &size); code != MPI_SUCCESS) return code;
  std::vector<std::array<int, 2>> all(static_cast<std::size_t>(size));
  const std::array own{color, key};
  if (const int code = allgather(own.data(), 2, MPI_INT, all.data(), 2, MPI_INT, comm);
      code != MPI_SUCCESS)
    return code;
  return is_a_copy(all) ? comm_dup(comm, part) : PMPI_Comm_split(comm, color, key, part);
}

}  // namespace shardmark::test::patient

namespace patient = shardmark::test::patient;

// Weak, because some programs count or change the calls themselves.
extern "C" {
#define PATIENT(name, function, parameters, arguments) \
  __attribute__((weak)) int MPI_##name parameters {    \
    return patient::function arguments;                \
  }
PATIENT(Barrier, barrier, (MPI_Comm c), (c))
PATIENT(Bcast, bcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
PATIENT(Allgather, allgather,
        (const void* s, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),
        (s, n, t, b, m, u, c))
PATIENT(Allreduce, allreduce, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (s, b, n, t, o, c))
PATIENT(Comm_dup, comm_dup, (MPI_Comm c, MPI_Comm* copy), (c, copy))
PATIENT(Comm_split, comm_split, (MPI_Comm c, int color, int key, MPI_Comm* part),
        (c, color, key, part))
#undef PATIENT
}
