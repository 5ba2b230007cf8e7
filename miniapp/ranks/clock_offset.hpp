// SPDX-License-Identifier: Apache-2.0
// Makes time stamps of different ranks comparable, so that figures can separate waiting for the
// last rank from the transfer itself without a barrier in a timed step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <core/clock.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. Returns what to add to this rank's monotonic clock to get rank 0's, in ns. It is 0
/// on rank 0's host, where both are the same clock. Elsewhere it follows from the shortest times
/// from each rank's arrival at a barrier to the other one's departure, as in the Network Time
/// Protocol (RFC 5905, section 8), and is as exact as the network is equally fast in both
/// directions. Tests give clocks of their own.
std::int64_t clock_offset_ns(Peers& peers, const std::string& host,
                             const std::function<std::int64_t()>& clock_ns = monotonic_ns);

/// The monotonic clock of a group's first rank, as each rank of the group reads it.
class GroupClock {
 public:
  /// Collective over `group`. `host` is this rank's.
  GroupClock(Peers& group, const std::string& host) : offset_ns_(clock_offset_ns(group, host)) {}
  double now_s() const { return static_cast<double>(monotonic_ns() + offset_ns_) * 1e-9; }

 private:
  std::int64_t offset_ns_;
};

/// Collective over `group`. For each of several things that the ranks did together, the seconds
/// from the last rank's start to the last rank's end. All ranks leave a barrier at different times:
/// that one waits for another to arrive belongs to no collective. `starts_s` and `ends_s` are this
/// rank's readings of one clock (GroupClock), as many on all ranks. Even where the clocks of
/// hosts do not agree, a result is neither shorter than on the fastest rank nor longer than on the
/// slowest one, because no rank starts after the last start or ends after the last end.
std::vector<double> spans(const std::vector<double>& starts_s, const std::vector<double>& ends_s,
                          Peers& group);

}  // namespace shardmark
