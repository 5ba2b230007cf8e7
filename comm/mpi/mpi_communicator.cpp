// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/mpi/mpi_communicator.hpp>

namespace shardmark {

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const CommOptions& options)
    : MpiCommunicator(OwnedComm::duplicate(comm), options) {}

MpiCommunicator::MpiCommunicator(OwnedComm comm, const CommOptions& options)
    : QueuedCommunicator(std::move(comm), options) {
  group_.comm = mpi_comm();
  SHARDMARK_MPI(MPI_Comm_rank(group_.comm, &group_.rank));
  SHARDMARK_MPI(MPI_Comm_size(group_.comm, &group_.size));
}

Ticket MpiCommunicator::start(const Collective& c) {
  validate(c, group_.rank, group_.size);
  return enqueue(c, route_of(c, group_.size, options()), group_);
}

std::unique_ptr<Communicator> MpiCommunicator::group_of(OwnedComm comm) const {
  return std::make_unique<MpiCommunicator>(std::move(comm), options());
}

}  // namespace shardmark
