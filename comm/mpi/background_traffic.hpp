// SPDX-License-Identifier: Apache-2.0
// Messages between ranks beside everything else, which keep the network busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <mpi.h>

#include <comm/idle.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <core/plan/deck/congestion.hpp>

namespace shardmark {

/// Background traffic on a communicator of its own. Each flow has one message in flight; the next
/// one starts when this rank calls progress() after its end, so there is no thread. A rank that has
/// no part in a flow does nothing.
class BackgroundTraffic {
 public:
  /// Collective over `world`: duplicates it. Allocates and touches the messages. `most_rate` is in
  /// bytes per second that this rank sends at most. Throws CommError.
  BackgroundTraffic(MPI_Comm world, const std::vector<Flow>& flows, std::int64_t message_bytes,
                    std::optional<double> most_rate);
  /// Collective. If the traffic still runs, its messages are given up.
  ~BackgroundTraffic();
  BackgroundTraffic(const BackgroundTraffic&) = delete;
  BackgroundTraffic& operator=(const BackgroundTraffic&) = delete;

  /// Local. All ranks of the flows call it once.
  void begin();
  /// Local; may be called at any time. Throws CommError.
  void progress();
  /// Collective: the last message of each flow is empty. Returns when all flows of this rank have
  /// ended. Throws CommError.
  void end(const Idle& idle);

  /// What this rank has received so far.
  std::int64_t received_bytes() const { return received_bytes_; }
  /// The bytes that hold the messages of this rank. No ledger counts them.
  std::int64_t buffer_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

 private:
  struct Channel {  // one flow, as one of its ends sees it
    int peer = 0;
    bool sends = false;
    bool last_sent = false, closed = false;
    std::byte* buffer = nullptr;
  };
  void receive(std::size_t i);
  void send(std::size_t i, std::int64_t bytes);
  void finished(std::size_t i, const MPI_Status& status);
  bool may_send() const;

  OwnedComm comm_;
  std::int64_t message_bytes_;
  std::optional<double> most_rate_;
  std::vector<std::byte> memory_;
  std::vector<Channel> channels_;
  std::vector<MPI_Request> requests_;  // by channel
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::int64_t start_ns_ = 0, sent_bytes_ = 0, received_bytes_ = 0;
  bool running_ = false, ending_ = false;
};

}  // namespace shardmark
