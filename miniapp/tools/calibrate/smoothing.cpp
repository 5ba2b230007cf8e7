// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <core/plan/price/scatter.hpp>
#include <miniapp/tools/calibrate/smoothing.hpp>

namespace shardmark {

namespace {

// How far a fit may reach, in logarithms of sizes. The first one gives each point its own time.
constexpr double reaches[] = {0.01, 0.5, 1, 2};

struct Sized {
  Scatter::Sizes sizes;
  double units, seconds;  // units of work, to whose number the time is about proportional
};

std::vector<Sized> sized(const ProductTimes& t) {
  std::vector<Sized> points;
  for (const auto& p : t.points)
    points.push_back({{p.m, p.n, p.k, p.batch}, 2 * p.m * p.n * p.k * p.batch, p.seconds});
  return points;
}

std::vector<Sized> sized(const StreamTimes& t) {
  std::vector<Sized> points;
  for (const auto& p : t.points) points.push_back({{p.elems, p.width, 1, 1}, p.elems, p.seconds});
  return points;
}

bool surrounded(const LeftOut& p) {
  return p.beyond <= 1.01;
}

std::vector<LeftOut> leave_out(const std::string& table, const std::vector<Sized>& points,
                               double reach) {
  std::vector<LeftOut> found;
  for (std::size_t out = 0; out < points.size() && points.size() > 2; ++out) {
    Scatter others(reach);
    for (std::size_t i = 0; i < points.size(); ++i)
      if (i != out) others.add(points[i].sizes, points[i].seconds / points[i].units);
    const Estimate e = others.at(points[out].sizes);
    found.push_back({table, points[out].seconds, e.value * points[out].units, e.beyond});
  }
  return found;
}

// By how much a fit that reaches so far misses points, in logarithms; all of them count alike.
double missed_by(const std::vector<Sized>& points, double reach) {
  double sum = 0, count = 0;
  for (const LeftOut& p : leave_out({}, points, reach)) {
    if (!surrounded(p)) continue;
    sum += std::abs(std::log(p.interpolated_s / p.seconds));
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

double best_reach(const std::vector<Sized>& points) {
  double best = reaches[0], least = std::numeric_limits<double>::infinity();
  for (const double reach : reaches) {
    const double missed = missed_by(points, reach);
    if (missed < least) best = reach, least = missed;
  }
  return best;
}

template<class Times>
void smooth_tables(std::vector<Times>& tables) {
  for (Times& t : tables) {
    const std::vector<Sized> points = sized(t);
    Scatter fit(best_reach(points));
    for (const Sized& p : points) fit.add(p.sizes, p.seconds / p.units);
    for (std::size_t i = 0; i < points.size(); ++i)
      t.points[i].seconds = fit.at(points[i].sizes).value * points[i].units;
  }
}

}  // namespace

void smooth(std::vector<ProductTimes>& products) {
  smooth_tables(products);
}

void smooth(std::vector<StreamTimes>& streams) {
  smooth_tables(streams);
}

std::vector<LeftOut> leave_one_out(const DeviceModel& device) {
  std::vector<LeftOut> found;
  const auto add = [&](const std::string& table, const std::vector<Sized>& points) {
    const std::vector<LeftOut> more = leave_out(table, points, best_reach(points));
    found.insert(found.end(), more.begin(), more.end());
  };
  for (const ProductTimes& t : device.products)
    add(fmt::format("products {} {}{}", to_string(t.dtype), to_string(t.form),
                    t.accumulate ? " +=" : ""),
        sized(t));
  for (const StreamTimes& t : device.streams)
    add(fmt::format("{} {}", t.kernel, to_string(t.dtype)), sized(t));
  return found;
}

double held_out_error(const std::vector<LeftOut>& points) {
  double sum = 0, weight = 0;
  for (const LeftOut& p : points) {
    if (!surrounded(p)) continue;
    sum += std::abs(p.error()) * p.seconds;
    weight += p.seconds;
  }
  return weight > 0 ? sum / weight : 0;
}

void SkewSamples::add(std::span<const double> seconds, int ranks) {
  if (ranks <= 1) return;
  ranks_ = ranks;
  const auto n = static_cast<std::size_t>(ranks), kernels = seconds.size() / n;
  // Until where each rank has come after so many kernels.
  std::vector<std::vector<double>> ends_s(n, std::vector<double>{0});
  for (std::size_t r = 0; r < n; ++r)
    for (const double s : seconds.subspan(r * kernels, kernels))
      ends_s[r].push_back(ends_s[r].back() + s);
  for (std::size_t run = 1; run <= kernels; run *= 2)
    for (std::size_t first = 0; first + run <= kernels; first += run) {
      double sum = 0, last = 0;
      for (const auto& end_s : ends_s) {
        const double took = end_s[first + run] - end_s[first];
        sum += took;
        last = std::max(last, took);
      }
      const double mean = sum / ranks;
      if (mean <= 0) continue;
      Samples& samples = by_length_[static_cast<int>(std::lround(std::log2(mean)))];
      samples.work_s += mean;
      samples.skews_s.push_back(last - mean);
    }
}

RankSkew SkewSamples::result() const {
  constexpr std::size_t enough = 20;
  RankSkew skew{.ranks = ranks_, .points = {}};
  for (const auto& [length, samples] : by_length_) {
    if (samples.skews_s.size() < enough) continue;
    std::vector<double> skews_s = samples.skews_s;
    const auto median = skews_s.begin() + std::ssize(skews_s) / 2;
    std::nth_element(skews_s.begin(), median, skews_s.end());
    if (*median > 0)
      skew.points.push_back({samples.work_s / static_cast<double>(skews_s.size()), *median});
  }
  return skew;
}

}  // namespace shardmark
