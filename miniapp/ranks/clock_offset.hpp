// SPDX-License-Identifier: Apache-2.0
// Time stamps of different ranks, made comparable: so that waiting for the last rank to arrive can
// be told from the transfer itself without a barrier in a timed step.
#pragma once

#include <cstdint>
#include <string>

#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. What to add to this rank's monotonic clock to get rank 0's, in ns. 0 on rank 0's
/// host, where they are the same clock; elsewhere the median over some barriers, good to the skew
/// with which ranks leave a barrier (tens of microseconds).
std::int64_t clock_offset_ns(Peers& peers, const std::string& host);

}  // namespace shardmark
