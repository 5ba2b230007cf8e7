// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/shm/shm_communicator.hpp>
#include <core/error.hpp>

namespace shardmark {

ShmCommunicator::ShmCommunicator(OwnedComm comm, std::unique_ptr<ShmWindow> window,
                                 const CommOptions& options)
    : QueuedCommunicator(std::move(comm), options),
      window_(std::move(window)),
      peers_(mpi_comm()) {}

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

Ticket ShmCommunicator::start(const Collective& c) {
  validate(c, rank(), size());
  ShmLimits means{window_->buffer_bytes(), std::nullopt};
  if (peers_.readable()) means.direct_bytes = options().shm.direct_bytes;
  return enqueue(c, plan_shm_rounds(c, size(), means), *window_, peers_);
}

std::unique_ptr<Communicator> ShmCommunicator::group_of(OwnedComm comm) const {
  std::string why_not;
  auto group = adopt(std::move(comm), options(), why_not);
  if (!group) throw CommError("group of a split: no shared memory: " + why_not);
  return group;
}

}  // namespace shardmark
