// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_communicator.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/self/self_communicator.hpp>
#include <comm/shm/shm_communicator.hpp>
#include <core/error.hpp>

namespace shardmark {

std::unique_ptr<Communicator> make_communicator(std::string_view backend, MPI_Comm comm,
                                                const CommOptions& options) {
  int size = 1;
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  if (backend == "mpi") return std::make_unique<MpiCommunicator>(comm, options);
  if (backend == "shm" || (backend == "auto" && size > 1)) {
    std::string why_not;
    auto shared = ShmCommunicator::make(comm, options, why_not);
    if (shared) return shared;
    if (backend == "auto") return std::make_unique<MpiCommunicator>(comm, options);
    throw CommError(fmt::format("comm.backend = shm: {}: choose auto or mpi", why_not));
  }
  if (backend == "nccl") return make_nccl_communicator(comm, options);
  if (backend != "self" && backend != "auto")
    throw CommError(
        fmt::format("comm.backend = {}: must be auto, self, shm, mpi or nccl", backend));
  if (size > 1)
    throw CommError(
        fmt::format("comm.backend = self: {} ranks: must be one: start one rank, or "
                    "choose shm or mpi",
                    size));
  return std::make_unique<SelfCommunicator>();
}

}  // namespace shardmark
