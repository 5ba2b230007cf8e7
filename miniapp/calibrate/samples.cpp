// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/plan/price/scatter.hpp>
#include <miniapp/calibrate/samples.hpp>

namespace shardmark {
namespace {

double quartile_range(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double median = values[values.size() / 2];
  return median > 0 ? (values[values.size() * 3 / 4] - values[values.size() / 4]) / median : 0;
}

struct Sized {
  Scatter::Sizes sizes;
  double units, seconds;
};

void leave_out(const std::string& table, const std::vector<Sized>& points,
               std::vector<LeftOut>& found) {
  for (std::size_t out = 0; out < points.size() && points.size() > 2; ++out) {
    Scatter others;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (i != out) others.add(points[i].sizes, points[i].seconds / points[i].units);
    const Estimate e = others.at(points[out].sizes);
    found.push_back({table, points[out].seconds, e.value * points[out].units, e.beyond});
  }
}

}  // namespace

double undisturbed_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t first = values.size() / 10, last = values.size() - values.size() * 2 / 5;
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += values[i];
  return sum / static_cast<double>(last - first);
}

void never_faster_when_larger(std::vector<TimePoint>& curve) {
  for (std::size_t i = curve.size(); i-- > 1;)
    curve[i - 1].seconds = std::min(curve[i - 1].seconds, curve[i].seconds);
}

void Samples::add(const Product& p, int busy_ranks, double seconds) {
  if (seconds <= 0) return;
  const ProductForm form = p.transpose_a   ? ProductForm::tn
                           : p.transpose_b ? ProductForm::nt
                                           : ProductForm::nn;
  products_[{p.type, p.c_type, form, p.accumulate, busy_ranks}][{p.m, p.n, p.k, p.batch}].push_back(
      seconds);
  ++count_;
}

void Samples::add(const Stream& s, int busy_ranks, double seconds) {
  if (seconds <= 0 || s.elems <= 0) return;
  streams_[{std::string(s.kernel), s.dtype, s.source, busy_ranks}][{s.elems, s.width}].push_back(
      seconds);
  ++count_;
}

void Samples::fill(DeviceModel& device) const {
  for (const auto& [key, shapes] : products_) {
    ProductTimes& t = device.products.emplace_back();
    std::tie(t.dtype, t.result, t.form, t.accumulate, t.busy_ranks) = key;
    for (const auto& [shape, seconds] : shapes) {
      const auto& [m, n, k, batch] = shape;
      t.points.push_back({static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                          static_cast<double>(batch), undisturbed_mean(seconds)});
    }
  }
  for (const auto& [key, sizes] : streams_) {
    StreamTimes& t = device.streams.emplace_back();
    std::tie(t.kernel, t.dtype, t.source, t.busy_ranks) = key;
    for (const auto& [size, seconds] : sizes)
      t.points.push_back({size.first, size.second, undisturbed_mean(seconds)});
  }
}

void smooth_streams(DeviceModel& device) {
  constexpr double distance = 0.5;
  for (StreamTimes& t : device.streams) {
    Scatter measured(distance);
    for (const auto& p : t.points) measured.add({p.elems, p.width, 1, 1}, p.seconds / p.elems);
    for (auto& p : t.points) p.seconds = measured.at({p.elems, p.width, 1, 1}).value * p.elems;
  }
}

double Samples::spread() const {
  std::vector<double> ranges;
  const auto look = [&](const auto& tables) {
    for (const auto& [key, points] : tables)
      for (const auto& [size, seconds] : points)
        if (seconds.size() >= 3) ranges.push_back(quartile_range(seconds));
  };
  look(products_);
  look(streams_);
  if (ranges.empty()) return 0;
  std::nth_element(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(ranges.size() / 2),
                   ranges.end());
  return ranges[ranges.size() / 2];
}

std::vector<LeftOut> leave_one_out(const DeviceModel& device) {
  std::vector<LeftOut> found;
  for (const ProductTimes& t : device.products) {
    std::vector<Sized> points;
    for (const auto& p : t.points)
      points.push_back({{p.m, p.n, p.k, p.batch}, 2 * p.m * p.n * p.k * p.batch, p.seconds});
    leave_out(fmt::format("products {} {}{}", to_string(t.dtype), to_string(t.form),
                          t.accumulate ? " +=" : ""),
              points, found);
  }
  for (const StreamTimes& t : device.streams) {
    std::vector<Sized> points;
    for (const auto& p : t.points) points.push_back({{p.elems, p.width, 1, 1}, p.elems, p.seconds});
    leave_out(fmt::format("{} {}", t.kernel, to_string(t.dtype)), points, found);
  }
  return found;
}

double held_out_error(const std::vector<LeftOut>& points) {
  double sum = 0, weight = 0;
  for (const LeftOut& p : points) {
    if (p.beyond > 1.01) continue;
    sum += std::abs(p.error()) * p.seconds;
    weight += p.seconds;
  }
  return weight > 0 ? sum / weight : 0;
}

}  // namespace shardmark
