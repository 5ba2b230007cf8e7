// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <comm/factory.hpp>
#include <comm/mpi.hpp>
#include <comm/mpi_check.hpp>
#include <comm/self.hpp>
#include <core/error.hpp>

namespace shardmark {

std::unique_ptr<Communicator> make_communicator(std::string_view backend, MPI_Comm comm,
                                                const MpiOptions& options) {
  int size = 1;
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  if (backend == "mpi" || (backend == "auto" && size > 1))
    return std::make_unique<MpiCommunicator>(comm, options);
  if (backend != "self" && backend != "auto")
    throw CommError(fmt::format("comm.backend = {}: must be auto, self or mpi", backend));
  if (size > 1)
    throw CommError(
        fmt::format("comm.backend = self: {} ranks: must be one: start one rank, or "
                    "choose mpi",
                    size));
  return std::make_unique<SelfCommunicator>();
}

}  // namespace shardmark
