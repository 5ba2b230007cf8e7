// SPDX-License-Identifier: Apache-2.0
// What a program copies between tiers, to the byte, by direction: the traffic of the link between
// host and device (PCIe, NVLink-C2C) and of the disk, which offload lives on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <core/plan/plan.hpp>

namespace shardmark {

/// The tiers between which a copy moves data, and which way.
enum class Direction : std::uint8_t { device_to_host, host_to_device, nvme_to_host, host_to_nvme };
inline constexpr int direction_count = 4;
std::string_view to_string(Direction);
constexpr bool is_disk(Direction d) {
  return d >= Direction::nvme_to_host;
}

/// Of a copy; its tier is the one that it ends in.
constexpr Direction direction_of(const Event& copy) {
  if (copy.lane == Lane::disk)
    return copy.tier == Tier::nvme ? Direction::host_to_nvme : Direction::nvme_to_host;
  return copy.tier == Tier::host ? Direction::device_to_host : Direction::host_to_device;
}

/// The number of copies and their bytes.
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
