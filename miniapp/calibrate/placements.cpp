// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/calibrate/placements.hpp>

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

// What a machine is like in each placement that its calibration met.
std::vector<Placement> met_by(const Machine& m) {
  if (!m.placements.empty() || m.node.core_to_core_s <= 0) return m.placements;
  return {{m.node.core_to_core_s, 1, m.device.streams, m.network}};
}

// Whether the tables of two placements list the same sizes, so that they have means.
bool alike(const Placement& a, const Placement& b) {
  const auto same = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& s, const auto& t) {
      return s.points.size() == t.points.size();
    });
  };
  return same(a.streams, b.streams) &&
         std::equal(a.network.begin(), a.network.end(), b.network.begin(), b.network.end(),
                    [&](const NetworkLevel& x, const NetworkLevel& y) {
                      return same(x.collectives, y.collectives);
                    });
}

}  // namespace

std::vector<CoreRange> kinds_of_distances(std::vector<double> distances) {
  constexpr std::size_t enough = 20;
  constexpr double rare = 0.05;
  std::erase_if(distances, [](double d) { return d <= 0; });
  if (distances.size() < enough) return {};
  std::sort(distances.begin(), distances.end());
  const auto at = [&](double p) {
    return distances[static_cast<std::size_t>(p * static_cast<double>(distances.size() - 1))];
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
  for (NetworkLevel& level : m.network) describe_link(level);
}

Machine with_placements_of(Machine machine, const Machine& earlier) {
  std::vector<Placement> all = met_by(machine);
  if (all.empty()) return machine;
  for (Placement& p : met_by(earlier))
    if (alike(p, all.front()) && std::all_of(all.begin(), all.end(), [&](const Placement& q) {
          return is_other_placement(p.core_to_core_s, q.core_to_core_s);
        }))
      all.push_back(std::move(p));
  if (all.size() < 2) return machine;
  double parts = 0;
  for (const Placement& p : all) parts += p.part;
  for (Placement& p : all) p.part /= parts;
  std::sort(all.begin(), all.end(), [](const Placement& a, const Placement& b) {
    return a.core_to_core_s < b.core_to_core_s;
  });
  machine.placements = std::move(all);
  machine.node.core_to_core_s = 0;
  average_placements(machine);
  return machine;
}

// By the all_gather of the smallest and that of the largest array.
void describe_link(NetworkLevel& level) {
  for (const CollectiveTimes& t : level.collectives) {
    if (t.op != Op::all_gather || t.points.empty()) continue;
    const TimePoint& largest = t.points.back();
    level.link.latency_s = t.points.front().seconds;
    level.link.bytes_per_s = largest.size / largest.seconds * (t.ranks - 1) / t.ranks;
    return;
  }
}

}  // namespace shardmark
