// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/tools/calibrate/placements.hpp>

namespace shardmark {
namespace {

// Points of the same sizes: adds `part` of the seconds of `from`.
template<class Points>
void add_part(Points& to, const Points& from, double part) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].seconds += part * from[i].seconds;
}

template<class Points>
void clear_seconds(Points& points) {
  for (auto& p : points) p.seconds = 0;
}

}  // namespace

std::vector<CoreRange> kinds_of_distances(std::vector<double> distances) {
  constexpr std::size_t enough = 20;
  constexpr double rare = 0.05;
  std::erase_if(distances, [](double d) { return d <= 0; });
  if (distances.size() < enough) return {};
  std::ranges::sort(distances);
  const auto at = [&](double p) {
    return distances[p * static_cast<double>(distances.size() - 1)];
  };
  const double near = at(rare), far = at(1 - rare);
  if (far < other_placement * near) return {};
  const double between = std::sqrt(near * far);
  return {{.least_s = std::numeric_limits<double>::min(), .most_s = between}, {.least_s = between}};
}

void average_placements(Machine& m) {
  m.device.streams = m.placements.front().streams;
  m.network = m.placements.front().network;
  for (StreamTimes& t : m.device.streams) clear_seconds(t.points);
  for (NetworkLevel& level : m.network)
    for (CollectiveTimes& t : level.collectives) clear_seconds(t.points);
  for (const Placement& p : m.placements) {
    for (std::size_t i = 0; i < m.device.streams.size(); ++i)
      add_part(m.device.streams[i].points, p.streams[i].points, p.part);
    for (std::size_t l = 0; l < m.network.size(); ++l)
      for (std::size_t i = 0; i < m.network[l].collectives.size(); ++i)
        add_part(m.network[l].collectives[i].points, p.network[l].collectives[i].points, p.part);
  }
  for (NetworkLevel& level : m.network) describe_level(level);
}

// The link by the all_gather of the smallest and that of the largest array.
void describe_level(NetworkLevel& level) {
  // Where the rank's own thread moves the data, it does either one or the other.
  level.speed_beside_compute = level.compute_share > 0.5 ? 0.5 : 1;
  for (const CollectiveTimes& t : level.collectives) {
    if (t.op != Op::all_gather || t.points.empty()) continue;
    const TimePoint& largest = t.points.back();
    level.link.latency_s = t.points.front().seconds;
    level.link.bytes_per_s = largest.size / largest.seconds * (t.ranks - 1) / t.ranks;
    return;
  }
}

}  // namespace shardmark
