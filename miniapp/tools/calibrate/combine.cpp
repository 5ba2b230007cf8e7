// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include <core/plan/price/event_costs.hpp>
#include <miniapp/tools/calibrate/calibrate.hpp>
#include <miniapp/tools/calibrate/placements.hpp>
#include <miniapp/tools/calibrate/samples.hpp>

namespace shardmark {
namespace {

// How many calibrations, or parts of them, each of two figures stands for.
struct Counts {
  double now = 1, earlier = 1;
  double mean(double a, double b) const { return (now * a + earlier * b) / (now + earlier); }
};

// Tables with the same key measure the same, and so do their points of the same size.
auto key_of(const ProductTimes& t) {
  return std::tie(t.dtype, t.result, t.form, t.accumulate, t.busy_ranks);
}
auto key_of(const StreamTimes& t) {
  return std::tie(t.kernel, t.dtype, t.source, t.busy_ranks, t.updated);
}
auto key_of(const CollectiveTimes& t) {
  return std::tie(t.op, t.dtype, t.ranks, t.ranks_per_node, t.beside_compute, t.in_place);
}
std::array<double, 4> size_of(const ProductTimes::Point& p) {
  return {p.m, p.n, p.k, p.batch};
}
std::array<double, 2> size_of(const StreamTimes::Point& p) {
  return {p.elems, p.width};
}
std::array<double, 1> size_of(const TimePoint& p) {
  return {p.size};
}

// Files round sizes to seven digits.
template<class Point>
bool same_size(const Point& a, const Point& b) {
  const auto x = size_of(a), y = size_of(b);
  return std::equal(x.begin(), x.end(), y.begin(),
                    [](double s, double t) { return std::abs(s - t) <= 1e-6 * s; });
}

template<class Points>
void average_points(Points& now, const Points& earlier, Counts counts) {
  for (auto& p : now) {
    const auto same = std::ranges::find_if(earlier, [&](const auto& e) { return same_size(p, e); });
    if (same != earlier.end()) p.seconds = counts.mean(p.seconds, same->seconds);
  }
}

template<class Tables>
void average_tables(Tables& now, const Tables& earlier, Counts counts) {
  for (auto& t : now)
    for (const auto& e : earlier)
      if (key_of(t) == key_of(e)) average_points(t.points, e.points, counts);
}

void average_levels(std::vector<NetworkLevel>& now, const std::vector<NetworkLevel>& earlier,
                    Counts counts) {
  for (NetworkLevel& level : now)
    for (const NetworkLevel& e : earlier) {
      if (level.between_nodes != e.between_nodes || level.library != e.library) continue;
      average_tables(level.collectives, e.collectives, counts);
      level.compute_share = counts.mean(level.compute_share, e.compute_share);
      describe_level(level);
    }
}

void average_copies(CopyModel& now, const CopyModel& earlier, Counts counts) {
  average_points(now.points, earlier.points, counts);
  describe_copies(now);
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
      return key_of(s) == key_of(t) && s.points.size() == t.points.size();
    });
  };
  return same(a.streams, b.streams) &&
         std::equal(a.network.begin(), a.network.end(), b.network.begin(), b.network.end(),
                    [&](const NetworkLevel& x, const NetworkLevel& y) {
                      return same(x.collectives, y.collectives);
                    });
}

// Adds what an earlier calibration knows of a placement.
void add_placement(std::vector<Placement>& all, Placement earlier, Counts counts) {
  const auto same = std::ranges::find_if(all, [&](const Placement& p) {
    return !is_other_placement(p.core_to_core_s, earlier.core_to_core_s);
  });
  if (same == all.end()) {
    earlier.part *= counts.earlier;
    if (alike(earlier, all.front())) all.push_back(std::move(earlier));
    return;
  }
  const Counts by_part{same->part, counts.earlier * earlier.part};
  average_tables(same->streams, earlier.streams, by_part);
  average_levels(same->network, earlier.network, by_part);
  same->core_to_core_s = by_part.mean(same->core_to_core_s, earlier.core_to_core_s);
  same->part += by_part.earlier;
}

void combine_placements(Machine& machine, const Machine& earlier, Counts counts) {
  std::vector<Placement> all = met_by(machine);
  if (all.empty()) {
    average_tables(machine.device.streams, earlier.device.streams, counts);
    average_levels(machine.network, earlier.network, counts);
    return;
  }
  for (Placement& p : met_by(earlier)) add_placement(all, std::move(p), counts);
  if (all.size() == 1) {
    machine.node.core_to_core_s = all.front().core_to_core_s;
    machine.device.streams = std::move(all.front().streams);
    machine.network = std::move(all.front().network);
    return;
  }
  double parts = 0;
  for (const Placement& p : all) parts += p.part;
  for (Placement& p : all) p.part /= parts;
  std::ranges::sort(all, {}, &Placement::core_to_core_s);
  machine.placements = std::move(all);
  machine.node.core_to_core_s = 0;
  average_placements(machine);
}

void combine_jitter(Jitter& now, const Jitter& earlier, Counts counts) {
  const RankSkew& skew = earlier.rank_skew;
  if (skew.ranks == now.rank_skew.ranks && !skew.points.empty())
    for (TimePoint& p : now.rank_skew.points)
      p.seconds = counts.mean(p.seconds, rank_skew_s(skew, skew.ranks, p.size));
  now.step_relative_sd = counts.mean(now.step_relative_sd, earlier.step_relative_sd);
  now.rank_relative_sd = counts.mean(now.rank_relative_sd, earlier.rank_relative_sd);
}

}  // namespace

Machine combined(Machine machine, const Machine& earlier) {
  MachineProvenance& now = machine.provenance;
  const MachineProvenance& before = earlier.provenance;
  const Counts counts{1, static_cast<double>(before.calibrations)};
  DeviceModel& device = machine.device;
  average_tables(device.products, earlier.device.products, counts);
  combine_placements(machine, earlier, counts);
  average_copies(machine.to_device, earlier.to_device, counts);
  average_copies(machine.to_host, earlier.to_host, counts);
  average_copies(machine.disk_read, earlier.disk_read, counts);
  average_copies(machine.disk_write, earlier.disk_write, counts);
  combine_jitter(machine.jitter, earlier.jitter, counts);
  device.event_s = counts.mean(device.event_s, earlier.device.event_s);
  // These are what the machine gives at best, so the better one of two counts.
  for (const Dtype d : all_values<Dtype>)
    device.peak_flops[d] = std::max(device.peak_flops[d], earlier.device.peak_flops[d]);
  device.memory_bytes_per_s =
      std::max(device.memory_bytes_per_s, earlier.device.memory_bytes_per_s);
  if (earlier.device.launch_s > 0)
    device.launch_s = std::min(device.launch_s, earlier.device.launch_s);
  now.calibrations += before.calibrations;
  now.samples += before.samples;
  now.commands.insert(now.commands.begin(), before.commands.begin(), before.commands.end());
  return machine;
}

}  // namespace shardmark
