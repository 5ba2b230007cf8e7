// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <comm/mpi/background_traffic.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <core/clock.hpp>

namespace shardmark {
namespace {

constexpr int traffic_tag = 0;

}  // namespace

BackgroundTraffic::BackgroundTraffic(MPI_Comm world, const std::vector<Flow>& flows,
                                     std::int64_t message_bytes, std::optional<double> most_rate)
    : comm_(OwnedComm::duplicate(world)), message_bytes_(message_bytes), most_rate_(most_rate) {
  const int rank = comm_rank(comm_.get());
  for (const Flow& f : flows) {
    if (f.to == rank) channels_.push_back({.peer = f.from, .sends = false});
    if (f.from == rank) channels_.push_back({.peer = f.to, .sends = true});
  }
  if (channels_.empty()) return;
  // All sends share one message; each receive has its own.
  const auto receives = static_cast<std::size_t>(
      std::count_if(channels_.begin(), channels_.end(), [](const Channel& c) { return !c.sends; }));
  const auto bytes = static_cast<std::size_t>(message_bytes_);
  memory_.resize((1 + receives) * bytes);
  std::byte* next = memory_.data() + bytes;
  for (Channel& c : channels_) {
    c.buffer = memory_.data();
    if (!c.sends) c.buffer = std::exchange(next, next + bytes);
  }
  requests_.resize(channels_.size(), MPI_REQUEST_NULL);
  indices_.resize(channels_.size());
  statuses_.resize(channels_.size());
}

BackgroundTraffic::~BackgroundTraffic() {
  if (!running_) return;
  // Peers may be gone, so nothing can be waited for.
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (!channels_[i].sends) report_mpi(MPI_Cancel(&requests_[i]), "MPI_Cancel");
    report_mpi(MPI_Request_free(&requests_[i]), "MPI_Request_free");
  }
  comm_.release();
}

void BackgroundTraffic::receive(std::size_t i) {
  const Channel& c = channels_[i];
  SHARDMARK_MPI(MPI_Irecv(c.buffer, static_cast<int>(message_bytes_), MPI_BYTE, c.peer, traffic_tag,
                          comm_.get(), &requests_[i]));
}

void BackgroundTraffic::send(std::size_t i, std::int64_t bytes) {
  const Channel& c = channels_[i];
  SHARDMARK_MPI(MPI_Isend(c.buffer, static_cast<int>(bytes), MPI_BYTE, c.peer, traffic_tag,
                          comm_.get(), &requests_[i]));
  sent_bytes_ += bytes;
}

bool BackgroundTraffic::may_send() const {
  if (!most_rate_) return true;
  const auto seconds = static_cast<double>(monotonic_ns() - start_ns_) * 1e-9;
  return static_cast<double>(sent_bytes_) <= *most_rate_ * seconds;
}

void BackgroundTraffic::begin() {
  if (channels_.empty()) return;
  running_ = true;
  start_ns_ = monotonic_ns();
  for (std::size_t i = 0; i < channels_.size(); ++i)
    if (!channels_[i].sends) receive(i);
  progress();
}

void BackgroundTraffic::finished(std::size_t i, const MPI_Status& status) {
  Channel& c = channels_[i];
  if (c.sends) {
    c.closed = c.last_sent;
    return;
  }
  int bytes = 0;
  SHARDMARK_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
  received_bytes_ += bytes;
  c.closed = bytes == 0;
  if (!c.closed) receive(i);
}

void BackgroundTraffic::progress() {
  if (!running_) return;
  int done = 0;
  SHARDMARK_MPI(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done,
                             indices_.data(), statuses_.data()));
  if (done == MPI_UNDEFINED) done = 0;  // no request is active
  for (int k = 0; k < done; ++k) {
    const auto at = static_cast<std::size_t>(k);
    finished(static_cast<std::size_t>(indices_[at]), statuses_[at]);
  }
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& c = channels_[i];
    if (!c.sends || c.last_sent || requests_[i] != MPI_REQUEST_NULL) continue;
    if (ending_) {
      c.last_sent = true;
      send(i, 0);
    } else if (may_send()) {
      send(i, message_bytes_);
    }
  }
}

void BackgroundTraffic::end(const Idle& idle) {
  ending_ = true;
  const auto all_closed = [this] {
    return std::all_of(channels_.begin(), channels_.end(),
                       [](const Channel& c) { return c.closed; });
  };
  while (running_) {
    progress();
    if (all_closed())
      running_ = false;
    else
      idle.pause();
  }
}

}  // namespace shardmark
