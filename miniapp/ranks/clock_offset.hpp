// SPDX-License-Identifier: Apache-2.0
// Makes time stamps of different ranks comparable, so that figures can separate waiting for the
// last rank from the transfer itself without a barrier in a timed step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <core/clock.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. Returns what to add to this rank's monotonic clock to get rank 0's, in ns. It is 0
/// on rank 0's host, where both are the same clock; elsewhere it is the median over some barriers,
/// as exact as ranks leave a barrier at the same time (tens of microseconds). Tests give clocks of
/// their own.
std::int64_t clock_offset_ns(Peers& peers, const std::string& host,
                             const std::function<std::int64_t()>& clock_ns = monotonic_ns);

}  // namespace shardmark
