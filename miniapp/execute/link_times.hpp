// SPDX-License-Identifier: Apache-2.0
// What copies between tiers took, by direction: over the link between host and device, and between
// the host's memory and files.
#pragma once

#include <array>
#include <cstdint>

#include <core/plan/interpret/copy_volume.hpp>

namespace shardmark {

/// What one direction carried, and how long that took.
struct LinkTimes {
  std::int64_t copies = 0, bytes = 0;
  std::int64_t busy_ns = 0;     // of the link: from each copy's start to its end
  std::int64_t exposed_ns = 0;  // of the compute lane: making copies and waiting for them
};
using LinkTimesByDirection = std::array<LinkTimes, direction_count>;

/// When a link carries a copy, on monotonic_ns().
struct Carried {
  std::int64_t begin_ns = 0, end_ns = 0;
};

}  // namespace shardmark
