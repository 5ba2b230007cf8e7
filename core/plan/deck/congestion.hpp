// SPDX-License-Identifier: Apache-2.0
// The section `congestion` of a deck: background traffic between ranks while they train, to see
// what a busy network costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <core/enum_array.hpp>

namespace shardmark {

/// Who sends to whom.
enum class TrafficPattern : std::uint8_t {
  pairs,       // rank i of the first half and rank i of the second half, both ways
  ring,        // each to the next
  all_to_all,  // each to all others
  incast       // all to the first
};
template<>
inline constexpr auto value_names<TrafficPattern> = name_list("pairs", "ring", "all_to_all",
                                                              "incast");

/// Background traffic. Such a run is unofficial; neither its plan nor its values change.
struct CongestionSpec {
  bool given = false;  // whether the deck has the section
  // Between whom: the union of these; all ranks if both are empty.
  std::vector<std::int64_t> ranks;
  std::vector<std::string> hosts;
  TrafficPattern pattern = TrafficPattern::pairs;
  double mib = 1;              // of one message
  std::optional<double> gbps;  // 10^9 bytes per second that a rank sends at most
  std::int64_t message_bytes() const;
  bool operator==(const CongestionSpec&) const = default;
};

/// Messages from one rank to another, one after the other.
struct Flow {
  int from = 0, to = 0;
};

/// Returns the ranks between which there is traffic, in ascending order; `hosts` names the host of
/// each rank. Throws DeckError if the run lacks a rank or a host, or if fewer than two ranks are
/// left; `deck` is the deck's path. Pure.
std::vector<int> congested_ranks(const CongestionSpec& spec, const std::vector<std::string>& hosts,
                                 const std::string& deck);

/// Returns who sends to whom among `ranks`. With an odd number of ranks, the last one has no part
/// in `pairs`. Pure.
std::vector<Flow> flows(TrafficPattern pattern, const std::vector<int>& ranks);

/// "ring, messages of 1 MiB, at most 2 GB/s", for reports.
std::string describe(const CongestionSpec& spec);

}  // namespace shardmark
