// SPDX-License-Identifier: Apache-2.0
// Copies between host and device on a lane of their own beside the compute stream, ordered with it
// by events: the host waits for none of them within a segment. Without such a lane, the link queue
// copies at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <core/plan/interpret/copy_volume.hpp>

namespace shardmark {

/// A stream of a device that carries copies only. Nothing here is collective.
class CopyLane {
 public:
  /// Names a copy: its number on the lane, from 1.
  using Number = std::uint64_t;
  /// A copy that is done. Times count back from the return of finish().
  struct Done {
    Direction direction = Direction::device_to_host;
    std::int64_t bytes = 0;
    std::int64_t began_ns_ago = 0, ended_ns_ago = 0;
    std::int64_t exposed_ns = 0;  // how long the compute stream waited for it
  };

  virtual ~CopyLane() = default;
  /// Starts a copy that comes after the work that the compute stream has been given so far, and
  /// after the copies before it. Returns at once. Host memory is pinned.
  virtual Number start(Direction direction, std::int64_t bytes, void* to, const void* from) = 0;
  /// Orders work that the compute stream is given from now on after that copy.
  virtual void hold_compute(Number copy) = 0;
  /// Waits for the lane and the compute stream. Returns all copies since the last call, in order.
  virtual std::vector<Done> finish() = 0;
};

/// Makes a lane on a stream of the current device beside `compute_stream`; null if the device's
/// memory is the host's. Throws CommError, as the functions of the lane do.
std::unique_ptr<CopyLane> make_copy_lane(void* compute_stream);

}  // namespace shardmark
