// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_communicator.hpp>

namespace shardmark {

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const MpiOptions& options)
    : MpiCommunicator(Adopt{}, OwnedComm::duplicate(comm), options) {}

MpiCommunicator::MpiCommunicator(Adopt, OwnedComm comm, const MpiOptions& options)
    : comm_(std::move(comm)), options_(options) {
  site_.comm = comm_.get();
  SHARDMARK_MPI(MPI_Comm_rank(site_.comm, &site_.rank));
  SHARDMARK_MPI(MPI_Comm_size(site_.comm, &site_.size));
}

MpiCommunicator::~MpiCommunicator() {
  // Unwinding after an error: peers may never join the free, and calls may be open.
  if (!queue_.empty()) comm_.release();
}

Ticket MpiCommunicator::start(const Collective& c) {
  validate(c, site_.rank, site_.size);
  return queue_.start(c, route_of(c, site_.size, options_), site_);
}

void MpiCommunicator::wait(Ticket ticket) {
  while (!queue_.test(ticket)) options_.idle.pause();
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  // How far the queue is differs from rank to rank; the split must meet all at the same place.
  if (!queue_.empty()) wait(queue_.last());
  MPI_Comm child = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split(site_.comm, color, key, &child));
  return std::unique_ptr<Communicator>(new MpiCommunicator(Adopt{}, OwnedComm(child), options_));
}

}  // namespace shardmark
