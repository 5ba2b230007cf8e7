// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_communicator.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/mpi/node.hpp>
#include <comm/mpi/unwatched_call.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/node/node_communicator.hpp>
#include <comm/self/self_communicator.hpp>
#include <comm/shm/shared_mapping.hpp>
#include <comm/shm/shm_communicator.hpp>
#include <core/error.hpp>

namespace shardmark {

namespace {

std::unique_ptr<Communicator> make_self(int size) {
  if (size > 1)
    throw CommError(
        fmt::format("comm.backend = self: {} ranks: must be one: start one rank, or "
                    "choose shm or mpi",
                    size));
  return std::make_unique<SelfCommunicator>();
}

// One of the back-ends that share the memory of a node, if that is possible.
template<class Sharing>
std::unique_ptr<Communicator> make_sharing(Backend backend, MPI_Comm comm,
                                           const CommOptions& options) {
  std::string why_not;
  auto made = Sharing::make(comm, options, why_not);
  if (!made)
    throw CommError(
        fmt::format("comm.backend = {}: {}: choose auto or mpi", to_string(backend), why_not));
  return made;
}

std::unique_ptr<Communicator> make_best(MPI_Comm comm, int size, const CommOptions& options) {
  if (size == 1) return make_self(size);
  const NodeMap map(nodes_of_ranks(comm, options.node.part), 0);
  std::string why_not;
  if (map.nodes() == 1) {
    auto shared = ShmCommunicator::make(comm, options, why_not);
    if (shared) return shared;
  } else if (map.most_locals() > 1 || true_on_all_ranks(comm, only_tcp_between_nodes())) {
    // Over TCP alone, pieces that cross each link once are faster even with one rank per node: an
    // all_reduce of MPICH among three ranks moves each byte 1.5 times as often.
    auto two_levels = NodeCommunicator::make(comm, options, why_not);
    if (two_levels) return two_levels;
  }
  return std::make_unique<MpiCommunicator>(comm, options);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(Backend backend, MPI_Comm comm,
                                                const CommOptions& options) {
  const UnwatchedCall call("making communicators");
  const int size = comm_size(comm);
  switch (backend) {
    case Backend::automatic: return make_best(comm, size, options);
    case Backend::self: return make_self(size);
    case Backend::mpi: return std::make_unique<MpiCommunicator>(comm, options);
    case Backend::shm: return make_sharing<ShmCommunicator>(backend, comm, options);
    case Backend::node: return make_sharing<NodeCommunicator>(backend, comm, options);
    case Backend::nccl: return make_nccl_communicator(comm, options);
  }
  throw CommError("comm.backend: no such back-end");
}

}  // namespace shardmark
