// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_communicator.hpp>

namespace shardmark {

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const CommOptions& options)
    : MpiCommunicator(Adopt{}, OwnedComm::duplicate(comm), options) {}

MpiCommunicator::MpiCommunicator(Adopt, OwnedComm comm, const CommOptions& options)
    : comm_(std::move(comm)), options_(options) {
  group_.comm = comm_.get();
  SHARDMARK_MPI(MPI_Comm_rank(group_.comm, &group_.rank));
  SHARDMARK_MPI(MPI_Comm_size(group_.comm, &group_.size));
}

MpiCommunicator::~MpiCommunicator() {
  // After an error calls may be open, and peers may never take part in a collective free.
  if (!queue_.empty()) comm_.release();
}

Ticket MpiCommunicator::start(const Collective& c) {
  validate(c, group_.rank, group_.size);
  return queue_.start(c, route_of(c, group_.size, options_), group_, moved_[c.op]);
}

void MpiCommunicator::wait(Ticket ticket) {
  while (!queue_.test(ticket)) options_.idle.pause();
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  // Ranks are at different places in their queues; the split has to come at the same place on all.
  if (!queue_.empty()) wait(queue_.last());
  MPI_Comm child = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split(group_.comm, color, key, &child));
  return std::unique_ptr<Communicator>(new MpiCommunicator(Adopt{}, OwnedComm(child), options_));
}

}  // namespace shardmark
