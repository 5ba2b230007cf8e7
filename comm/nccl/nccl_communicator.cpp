// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include <fmt/core.h>

#include <comm/collective.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_communicator.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <core/error.hpp>

namespace shardmark {

std::unique_ptr<Communicator> make_nccl_communicator(MPI_Comm comm, const CommOptions& options) {
  if (options.reductions == Reductions::ordered)
    throw CommError(
        "comm.backend = nccl: run.reductions = ordered: not implemented on NCCL: choose native, or "
        "mpi");
  return std::make_unique<NcclCommunicator>(OwnedComm::duplicate(comm), options);
}

std::string nccl_library() {
  int version = 0;
  SHARDMARK_NCCL(ncclGetVersion(&version));
  return fmt::format("{} {}.{}.{}", nccl_name, version / 10000, version / 100 % 100, version % 100);
}

NcclCommunicator::DeviceWord::DeviceWord() {
  SHARDMARK_RUNTIME(Malloc, &data_, sizeof(std::int32_t));
  SHARDMARK_RUNTIME(Memset, data_, 0, sizeof(std::int32_t));  // for memory checkers only
}

NcclCommunicator::DeviceWord::~DeviceWord() {
  SHARDMARK_REPORT(Free, data_);
}

NcclCommunicator::NcclCommunicator(OwnedComm comm, const CommOptions& options)
    : comm_(std::move(comm)),
      options_(options),
      exceptions_(std::uncaught_exceptions()),
      handle_(comm_.get(), options.nccl.start_timeout_s, options.idle) {
  lane_.comm = handle_.get();
  lane_.stream = stream_.get();
  lane_.word = word_.get();
  lane_.rank = comm_rank(comm_.get());
  lane_.size = comm_size(comm_.get());
}

NcclCommunicator::~NcclCommunicator() {
  const bool clean = flights_.empty() && std::uncaught_exceptions() == exceptions_;
  if (clean) handle_.close();
  if (clean && !handle_.aborted()) return;
  handle_.abort();
  comm_.release();
}

std::string NcclCommunicator::oldest() const {
  return flights_.empty() ? "NCCL" : describe(flights_.front().c);
}

DeviceEvent NcclCommunicator::take_event() {
  if (spare_.empty()) return DeviceEvent();
  DeviceEvent event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

Ticket NcclCommunicator::start(const Collective& c) {
  validate(c, rank(), size());
  Flight flight{c, take_event(), take_event()};
  flight.ready.record(static_cast<device::Stream>(options_.compute_stream));
  flights_.push_back(std::move(flight));
  ++started_;
  issue();
  return started_;
}

void NcclCommunicator::issue() {
  // ready() is called even if there is nothing to issue: it is the only place that reports errors
  // of the network.
  while (handle_.ready(oldest()) && issued_ < flights_.size()) {
    Flight& flight = flights_[issued_];
    if (!flight.called) {
      flight.ready.make_wait(lane_.stream);
      call_nccl(flight.c, lane_, moved_[flight.c.op]);
      flight.called = true;
      continue;
    }
    // Only now NCCL has put the call on the stream.
    finish_on_stream(flight.c, lane_);
    flight.done.record(lane_.stream);
    ++issued_;
  }
}

void NcclCommunicator::retire() {
  while (issued_ > 0 && flights_.front().done.complete()) {
    spare_.push_back(std::move(flights_.front().ready));
    spare_.push_back(std::move(flights_.front().done));
    flights_.pop_front();
    --issued_;
    ++done_;
  }
}

bool NcclCommunicator::test(Ticket ticket) {
  require_started(ticket, started_);
  if (ticket > done_) progress();
  return ticket <= done_;
}

void NcclCommunicator::wait(Ticket ticket) {
  while (!test(ticket)) options_.idle.pause();
}

void NcclCommunicator::progress() {
  issue();
  retire();
}

bool NcclCommunicator::holds_compute(Ticket ticket) {
  require_started(ticket, started_);
  if (ticket > done_ + issued_) issue();
  if (ticket > done_ + issued_) return false;
  if (ticket > done_)
    flights_[ticket - done_ - 1].done.make_wait(
        static_cast<device::Stream>(options_.compute_stream));
  return true;
}

Ticket NcclCommunicator::exchange(const void* own, void* all, std::int64_t bytes) {
  const int count = static_cast<int>(bytes);
  SHARDMARK_MPI(MPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, comm_.get()));
  return 0;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  if (started_ > done_) wait(started_);
  return std::make_unique<NcclCommunicator>(OwnedComm::split(comm_.get(), color, key), options_);
}

}  // namespace shardmark
