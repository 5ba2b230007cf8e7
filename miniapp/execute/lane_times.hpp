// SPDX-License-Identifier: Apache-2.0
// Where the time of the compute lane went, scopes measured with the clock that the counters use,
// and bytes and times of copies between tiers by direction: over the link between host and device,
// and between the host's memory and files.
#pragma once

#include <cstdint>

#include <core/clock.hpp>
#include <core/plan/interpret/copy_volume.hpp>

namespace shardmark {

/// In ns.
struct LaneTimes {
  std::int64_t init = 0, forward = 0, backward = 0, step = 0;  // by phase, waits included
  std::int64_t copies = 0;   // between host and device: making them, and waiting for them
  std::int64_t exposed = 0;  // waiting for collectives, or in calls that make them progress

  /// Without waiting for other ranks.
  std::int64_t own() const { return forward + backward + step - exposed; }
  /// What has passed since `before`.
  LaneTimes since(const LaneTimes& before) const {
    return {init - before.init, forward - before.forward, backward - before.backward,
            step - before.step, copies - before.copies,   exposed - before.exposed};
  }
};

/// Adds the time of its scope, in ns, to `into`.
class ScopedTimer {
 public:
  explicit ScopedTimer(std::int64_t& into) : into_(into), start_ns_(monotonic_ns()) {}
  ~ScopedTimer() { into_ += monotonic_ns() - start_ns_; }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  std::int64_t& into_;
  std::int64_t start_ns_;
};

/// Seconds since `start_ns`, a time of monotonic_ns().
inline double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

/// The copies in one direction.
struct LinkTimes {
  std::int64_t copies = 0, bytes = 0;
  std::int64_t busy_ns = 0;     // of the link, from the start of each copy to its end
  std::int64_t exposed_ns = 0;  // of the compute lane, which makes copies and waits for them

  void add_copy(std::int64_t of_bytes, std::int64_t busy, std::int64_t exposed = 0) {
    ++copies;
    bytes += of_bytes;
    busy_ns += busy;
    exposed_ns += exposed;
  }
};
using LinkTimesByDirection = EnumArray<Direction, LinkTimes>;

/// When a link carries a copy, in the time of monotonic_ns().
struct Carried {
  std::int64_t begin_ns = 0, end_ns = 0;
};

}  // namespace shardmark
