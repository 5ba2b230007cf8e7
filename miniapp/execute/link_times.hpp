// SPDX-License-Identifier: Apache-2.0
// Bytes and times of copies between tiers by direction: over the link between host and device, and
// between the host's memory and files.
#pragma once

#include <array>
#include <cstdint>

#include <core/plan/interpret/copy_volume.hpp>

namespace shardmark {

/// The copies in one direction.
struct LinkTimes {
  std::int64_t copies = 0, bytes = 0;
  std::int64_t busy_ns = 0;     // of the link, from the start of each copy to its end
  std::int64_t exposed_ns = 0;  // of the compute lane, which makes copies and waits for them
};
using LinkTimesByDirection = EnumArray<Direction, LinkTimes>;

/// When a link carries a copy, in the time of monotonic_ns().
struct Carried {
  std::int64_t begin_ns = 0, end_ns = 0;
};

}  // namespace shardmark
