// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <comm/mpi.hpp>
#include <comm/mpi_check.hpp>
#include <comm/validate.hpp>
#include <core/error.hpp>

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
  queue_.emplace_back(c, route_of(c, site_.size, options_), site_);
  ++started_;
  if (queue_.size() == 1) {
    queue_.front().take_off();
    advance();  // what is done at once is done now
  }
  return started_;
}

// One look; true when something moved.
bool MpiCommunicator::advance() {
  if (queue_.empty()) return false;
  bool moved = queue_.front().advance();
  while (queue_.front().done()) {
    moved = true;
    ++done_;
    queue_.pop_front();
    if (queue_.empty()) break;
    queue_.front().take_off();
  }
  return moved;
}

bool MpiCommunicator::test(Ticket ticket) {
  if (ticket == 0 || ticket > started_)
    throw CommError("ticket " + std::to_string(ticket) + ": must name a started collective, 1 to " +
                    std::to_string(started_));
  while (done_ < ticket && advance()) {
  }
  return done_ >= ticket;
}

void MpiCommunicator::wait(Ticket ticket) {
  while (!test(ticket)) options_.idle.pause();
}

void MpiCommunicator::progress() {
  while (advance()) {
  }
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  // How far the queue is differs from rank to rank; the split must meet all at the same place.
  if (started_ > 0) wait(started_);
  MPI_Comm child = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split(site_.comm, color, key, &child));
  return std::unique_ptr<Communicator>(new MpiCommunicator(Adopt{}, OwnedComm(child), options_));
}

}  // namespace shardmark
