// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>

#include <miniapp/tools/calibrate/placements.hpp>
#include <miniapp/tools/calibrate/samples.hpp>

namespace shardmark {
namespace {

double quartile_range(std::vector<double> values) {
  std::ranges::sort(values);
  const double median = values[values.size() / 2];
  return median > 0 ? (values[values.size() * 3 / 4] - values[values.size() / 4]) / median : 0;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A larger message is no faster. Where points say so, other work disturbed the smaller one, which
// gets the time of the larger one.
void never_faster_when_larger(std::vector<TimePoint>& curve) {
  for (std::size_t i = curve.size(); i-- > 1;)
    curve[i - 1].seconds = std::min(curve[i - 1].seconds, curve[i].seconds);
}

}  // namespace

double mean_without_outliers(std::vector<double> values) {
  std::ranges::sort(values);
  const double most = 2 * values[(values.size() - 1) / 2];
  values.erase(std::upper_bound(values.begin(), values.end(), most), values.end());
  return mean(values);
}

void add_point(CopyModel& model, double bytes, double seconds) {
  model.points.push_back({bytes, seconds});
  describe_copies(model);
}

void describe_copies(CopyModel& model) {
  if (model.points.empty()) return;
  never_faster_when_larger(model.points);
  const TimePoint& largest = model.points.back();
  model.link = {.latency_s = model.points.front().seconds,
                .bytes_per_s = largest.size / largest.seconds,
                .measured = true,
                .source = {}};
}

void Samples::cores_are_apart(double core_to_core_s) {
  core_to_core_s_ = core_to_core_s;
  if (core_to_core_s > 0) distances_.push_back(core_to_core_s);
}

void Samples::add(const Product& p, int busy_ranks, double seconds) {
  if (seconds <= 0) return;
  const ProductForm form = p.transpose_a   ? ProductForm::tn
                           : p.transpose_b ? ProductForm::nt
                                           : ProductForm::nn;
  products_[{p.type, p.c_type, form, p.accumulate, busy_ranks}][{p.m, p.n, p.k, p.batch}].push_back(
      {seconds, core_to_core_s_});
  ++count_;
}

void Samples::add(const Stream& s, int busy_ranks, double seconds) {
  if (seconds <= 0 || s.elems <= 0) return;
  streams_[{std::string(s.kernel), s.dtype, s.source, busy_ranks, s.updated}][{s.elems, s.width}]
      .push_back({seconds, core_to_core_s_});
  ++count_;
}

void Samples::add(std::size_t level, Op op, Dtype dtype, bool in_place, std::int64_t bytes,
                  const std::vector<double>& seconds) {
  auto& samples = collectives_[{level, op, dtype, in_place}][static_cast<double>(bytes)];
  for (const double s : seconds) samples.push_back({s, core_to_core_s_});
  count_ += std::ssize(seconds);
}

void Samples::add_share_of_compute(std::size_t level, double share) {
  shares_of_compute_[level].push_back(share);
}

void Samples::add(Direction direction, std::int64_t bytes, const std::vector<double>& seconds) {
  auto& samples = copies_[direction][static_cast<double>(bytes)];
  for (const double s : seconds) samples.push_back({s, core_to_core_s_});
  count_ += std::ssize(seconds);
}

// What is known of the ratio of times in this range of cores to those elsewhere.
struct Samples::Ratio {
  double log_sum = 0, sizes = 0;  // over sizes that were measured in both
  double value() const { return sizes > 0 ? std::exp(log_sum / sizes) : 1; }
};

// The mean time of one size in a range of cores and elsewhere, where it was measured.
struct Samples::Means {
  std::optional<double> inside, outside;
  Means(const std::vector<Sample>& samples, const CoreRange& cores) {
    std::vector<double> there, elsewhere;
    for (const Sample& s : samples)
      (cores.holds(s.core_to_core_s) ? there : elsewhere).push_back(s.seconds);
    if (!there.empty()) inside = mean_without_outliers(there);
    if (!elsewhere.empty()) outside = mean_without_outliers(elsewhere);
  }
};

template<class Size>
void Samples::add_ratio(const Table<Size>& table, const CoreRange& cores, Ratio& ratio) {
  for (const auto& [size, samples] : table) {
    const Means mean(samples, cores);
    if (!mean.inside || !mean.outside) continue;
    ratio.log_sum += std::log(*mean.inside / *mean.outside);
    ++ratio.sizes;
  }
}

// The time at each size while the cores were in this range. Where they never were, the time in the
// other one counts, times the mean ratio of sizes that were measured in both, of this table or else
// of all that are like it.
template<class Size>
std::map<Size, double> Samples::points(const Table<Size>& table, const CoreRange& cores,
                                       const Ratio& of_all) {
  Ratio own;
  add_ratio(table, cores, own);
  const double ratio = own.sizes > 0 ? own.value() : of_all.value();
  std::map<Size, double> found;
  for (const auto& [size, samples] : table) {
    const Means mean(samples, cores);
    found[size] = mean.inside ? *mean.inside : *mean.outside * ratio;
  }
  return found;
}

void Samples::fill_streams(std::vector<StreamTimes>& streams, const CoreRange& cores) const {
  Ratio of_all;
  for (const auto& [key, table] : streams_) add_ratio(table, cores, of_all);
  for (const auto& [key, table] : streams_) {
    StreamTimes& t = streams.emplace_back();
    std::tie(t.kernel, t.dtype, t.source, t.busy_ranks, t.updated) = key;
    for (const auto& [size, seconds] : points(table, cores, of_all))
      t.points.push_back({size.first, size.second, seconds});
  }
}

void Samples::fill_levels(std::vector<NetworkLevel>& levels, const CoreRange& cores) const {
  Ratio of_all;
  for (const auto& [key, table] : collectives_) add_ratio(table, cores, of_all);
  for (const auto& [key, table] : collectives_) {
    const auto& [level, op, dtype, in_place] = key;
    for (CollectiveTimes& t : levels[level].collectives) {
      if (t.op != op || t.dtype != dtype || t.in_place != in_place) continue;
      for (const auto& [bytes, seconds] : points(table, cores, of_all))
        t.points.push_back({bytes, seconds});
      never_faster_when_larger(t.points);
    }
  }
  for (const auto& [number, shares] : shares_of_compute_)
    levels[number].compute_share = mean(shares);
  for (NetworkLevel& level : levels) describe_level(level);
}

void Samples::fill_copies(Machine& machine) const {
  for (const auto& [direction, table] : copies_) {
    CopyModel& model = direction == Direction::host_to_device ? machine.to_device : machine.to_host;
    for (const auto& [bytes, seconds] : points(table, {}, {})) add_point(model, bytes, seconds);
  }
}

std::vector<double> Samples::distances_in(const CoreRange& cores) const {
  std::vector<double> inside;
  for (const double d : distances_)
    if (cores.holds(d)) inside.push_back(d);
  return inside;
}

// The part of all points that were measured while the cores were in this range: of kernels or of
// collectives, whichever is less.
double Samples::known_part(const CoreRange& cores) const {
  const auto part = [&](const auto& tables) {
    double all = 0, known = 0;
    for (const auto& [key, table] : tables)
      for (const auto& [size, samples] : table) {
        ++all;
        known += std::ranges::any_of(
            samples, [&](const Sample& s) { return cores.holds(s.core_to_core_s); });
      }
    return all > 0 ? known / all : 1;
  };
  return std::min(part(streams_), part(collectives_));
}

// Where the cores were for long enough to know the machine there, or else for longest; everywhere
// if they did not move.
std::vector<CoreRange> Samples::known_ranges() const {
  constexpr double enough = 0.25;
  std::vector<CoreRange> ranges = kinds_of_distances(distances_), known;
  if (ranges.empty()) return {CoreRange{}};
  std::ranges::copy_if(ranges, std::back_inserter(known),
                       [&](const CoreRange& r) { return known_part(r) >= enough; });
  if (!known.empty()) return known;
  return {*std::ranges::max_element(
      ranges, [&](const auto& a, const auto& b) { return known_part(a) < known_part(b); })};
}

void Samples::fill(Machine& machine) const {
  for (const auto& [key, table] : products_) {
    ProductTimes& t = machine.device.products.emplace_back();
    std::tie(t.dtype, t.result, t.form, t.accumulate, t.busy_ranks) = key;
    for (const auto& [shape, seconds] : points(table, {}, {})) {
      const auto& [m, n, k, batch] = shape;
      t.points.push_back({static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                          static_cast<double>(batch), seconds});
    }
  }
  fill_copies(machine);
  const std::vector<CoreRange> known = known_ranges();
  if (known.size() == 1) {
    const std::vector<double> inside = distances_in(known.front());
    if (!inside.empty()) machine.node.core_to_core_s = mean_without_outliers(inside);
    fill_streams(machine.device.streams, known.front());
    fill_levels(machine.network, known.front());
    return;
  }
  for (const CoreRange& cores : known) {
    const std::vector<double> inside = distances_in(cores);
    Placement& p = machine.placements.emplace_back();
    p.core_to_core_s = mean_without_outliers(inside);
    p.part = static_cast<double>(inside.size()) / static_cast<double>(distances_.size());
    p.network = machine.network;
    fill_streams(p.streams, cores);
    fill_levels(p.network, cores);
  }
  average_placements(machine);
}

double Samples::spread() const {
  std::vector<double> ranges;
  const auto look = [&](const auto& tables) {
    for (const auto& [key, points] : tables)
      for (const auto& [size, samples] : points) {
        std::vector<double> seconds;
        for (const Sample& s : samples) seconds.push_back(s.seconds);
        if (seconds.size() >= 3) ranges.push_back(quartile_range(seconds));
      }
  };
  look(products_);
  look(streams_);
  if (ranges.empty()) return 0;
  std::nth_element(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(ranges.size() / 2),
                   ranges.end());
  return ranges[ranges.size() / 2];
}

}  // namespace shardmark
