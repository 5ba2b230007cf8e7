// SPDX-License-Identifier: Apache-2.0
// What a program copies between host and device, to the byte, by direction: the traffic of the link
// (PCIe, NVLink-C2C) that offload lives on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <core/plan/plan.hpp>

namespace shardmark {

/// By the tier that a copy ends in.
enum class Direction : std::uint8_t { device_to_host, host_to_device };
inline constexpr int direction_count = 2;
std::string_view to_string(Direction);

/// Where a copy into `tier` comes from is the other one.
constexpr Direction direction_to(Tier tier) {
  return tier == Tier::host ? Direction::device_to_host : Direction::host_to_device;
}

struct LinkTraffic {
  std::int64_t copies = 0, bytes = 0;
  bool operator==(const LinkTraffic&) const = default;
};
using LinkVolume = std::array<LinkTraffic, direction_count>;

/// Of one segment, run `times` times.
LinkVolume link_volume(const Segment& segment, std::int64_t times = 1);
/// Of an optimizer step of the steady state.
LinkVolume steady_link_volume(const Program& program);
void add(LinkVolume& into, const LinkVolume& from);

}  // namespace shardmark
