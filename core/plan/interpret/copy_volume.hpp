// SPDX-License-Identifier: Apache-2.0
// The bytes that a program copies between tiers, by direction: the traffic of the link between host
// and device (PCIe, NVLink-C2C) and of the disk, on which offload depends.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <core/plan/plan.hpp>

namespace shardmark {

/// The tiers between which a copy moves data, and which way.
enum class Direction : std::uint8_t { device_to_host, host_to_device, nvme_to_host, host_to_nvme };
template<>
inline constexpr auto value_names<Direction> = name_list("device_to_host", "host_to_device",
                                                         "nvme_to_host", "host_to_nvme");
constexpr bool is_disk(Direction d) {
  return d >= Direction::nvme_to_host;
}

/// The direction of a copy event, whose tier is the destination.
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
using LinkVolume = EnumArray<Direction, LinkTraffic>;

/// The copies of one segment that runs `times` times. Throws SizeError beyond 63 bits.
LinkVolume link_volume(const Segment& segment, std::int64_t times = 1);
/// The copies of one optimizer step in the steady state.
LinkVolume steady_link_volume(const Program& program);
void add(LinkVolume& into, const LinkVolume& from);

}  // namespace shardmark
