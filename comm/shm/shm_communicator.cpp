// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/shm/shm_communicator.hpp>
#include <core/error.hpp>

namespace shardmark {

ShmCommunicator::ShmCommunicator(OwnedComm comm, std::unique_ptr<ShmWindow> window,
                                 const CommOptions& options)
    : comm_(std::move(comm)), window_(std::move(window)), options_(options), peers_(comm_.get()) {}

std::unique_ptr<ShmCommunicator> ShmCommunicator::make(MPI_Comm comm, const CommOptions& options,
                                                       std::string& why_not) {
  return adopt(OwnedComm::duplicate(comm), options, why_not);
}

std::unique_ptr<ShmCommunicator> ShmCommunicator::adopt(OwnedComm comm, const CommOptions& options,
                                                        std::string& why_not) {
  auto window = ShmWindow::make(comm.get(), options.shm.buffer_bytes, why_not);
  if (!window) return nullptr;
  return std::unique_ptr<ShmCommunicator>(
      new ShmCommunicator(std::move(comm), std::move(window), options));
}

ShmCommunicator::~ShmCommunicator() {
  // After an error, peers may never take part in a collective free.
  if (!queue_.empty()) comm_.release();
}

Ticket ShmCommunicator::start(const Collective& c) {
  validate(c, rank(), size());
  ShmLimits means{window_->buffer_bytes(), std::nullopt};
  if (peers_.readable()) means.direct_bytes = options_.shm.direct_bytes;
  return queue_.start(c, plan_shm_rounds(c, size(), means), *window_, peers_, moved_[c.op]);
}

void ShmCommunicator::wait(Ticket ticket) {
  while (!queue_.test(ticket)) options_.idle.pause();
}

std::unique_ptr<Communicator> ShmCommunicator::split(int color, int key) {
  if (!queue_.empty()) wait(queue_.last());
  MPI_Comm child = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split(comm_.get(), color, key, &child));
  std::string why_not;
  auto group = adopt(OwnedComm(child), options_, why_not);
  if (!group) throw CommError("group of a split: no shared memory: " + why_not);
  return group;
}

}  // namespace shardmark
