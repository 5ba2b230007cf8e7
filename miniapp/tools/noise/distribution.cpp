// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/tools/noise/distribution.hpp>

namespace shardmark {
namespace {

// Takes values in any order and joins equal ones.
Distribution sorted(std::vector<Distribution::Value> values) {
  std::ranges::sort(values, [](const auto& a, const auto& b) { return a.s < b.s; });
  Distribution d;
  for (const auto& v : values) {
    if (!d.empty() && d.values.back().s == v.s)
      d.values.back().count += v.count;
    else if (v.count > 0)
      d.values.push_back(v);
  }
  return d;
}

}  // namespace

std::int64_t Distribution::count() const {
  std::int64_t all = 0;
  for (const Value& v : values) all += v.count;
  return all;
}

double Distribution::mean() const {
  double sum = 0;
  for (const Value& v : values) sum += v.s * static_cast<double>(v.count);
  return empty() ? 0 : sum / static_cast<double>(count());
}

double Distribution::quantile(double p) const {
  const double wanted = p * static_cast<double>(count());
  std::int64_t below = 0;
  for (const Value& v : values) {
    below += v.count;
    if (static_cast<double>(below) >= wanted) return v.s;
  }
  return largest();
}

Distribution distribution_of(const std::vector<double>& samples) {
  std::vector<Distribution::Value> values;
  values.reserve(samples.size());
  for (const double s : samples) values.push_back({s, 1});
  return sorted(std::move(values));
}

Distribution merged(const std::vector<Distribution>& parts) {
  std::vector<Distribution::Value> values;
  for (const Distribution& d : parts) values.insert(values.end(), d.values.begin(), d.values.end());
  return sorted(std::move(values));
}

Distribution above(const Distribution& values, double base) {
  std::vector<Distribution::Value> delays = values.values;
  for (auto& v : delays) v.s = std::max(0.0, v.s - base);
  return sorted(std::move(delays));
}

Distribution thinned(const Distribution& d, std::size_t most) {
  if (d.values.size() <= most || most < 2) return d;
  const std::size_t kept = most / 2, joined = d.values.size() - kept;
  std::int64_t below = 0;
  for (std::size_t i = 0; i < joined; ++i) below += d.values[i].count;
  const auto per_group = static_cast<double>(below) / static_cast<double>(most - kept);
  Distribution thin;
  double sum = 0;
  std::int64_t count = 0, done = 0;
  for (std::size_t i = 0; i < joined; ++i) {
    sum += d.values[i].s * static_cast<double>(d.values[i].count);
    count += d.values[i].count;
    const auto end = static_cast<double>(thin.values.size() + 1) * per_group;
    if (static_cast<double>(done + count) < end && i + 1 < joined) continue;
    thin.values.push_back({sum / static_cast<double>(count), count});
    done += count;
    sum = 0, count = 0;
  }
  thin.values.insert(thin.values.end(), d.values.end() - static_cast<std::ptrdiff_t>(kept),
                     d.values.end());
  return thin;
}

double expected_maximum(const Distribution& d, double draws) {
  const auto all = static_cast<double>(d.count());
  double expected = 0, before = 0;
  std::int64_t below = 0;
  for (const auto& v : d.values) {
    below += v.count;
    const double now = std::pow(static_cast<double>(below) / all, draws);
    expected += v.s * (now - before);
    before = now;
  }
  return expected;
}

double expected_maximum(std::span<const Distribution> parts) {
  struct Rise {
    double s, factor;  // by which the product of all distribution functions grows at s
    std::size_t part;
  };
  std::vector<Rise> steps;
  double start = 0;  // below it, some part has no value
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto all = static_cast<double>(parts[p].count());
    double before = 0;
    std::int64_t below = 0;
    for (const auto& v : parts[p].values) {
      below += v.count;
      const double now = static_cast<double>(below) / all;
      steps.push_back({v.s, before > 0 ? now / before : now, p});
      before = now;
    }
    start = std::max(start, parts[p].values.front().s);
  }
  std::ranges::sort(steps, {}, &Rise::s);
  double product = 1, before = 0, expected = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    product *= steps[i].factor;
    if (steps[i].s < start || (i + 1 < steps.size() && steps[i + 1].s == steps[i].s)) continue;
    expected += steps[i].s * (product - before);
    before = product;
  }
  return expected;
}

double beyond_seen(double draws, std::int64_t seen) {
  return draws / (draws + static_cast<double>(seen));
}

std::optional<Tail> fit_tail(const Distribution& d) {
  const std::int64_t all = d.count();
  if (all < 300) return {};
  const std::int64_t wanted = std::clamp<std::int64_t>(all / 100, 30, 1000);
  std::vector<double> largest;  // descending, with the value above which the tail begins
  for (auto v = d.values.rbegin(); v != d.values.rend(); ++v)
    for (std::int64_t i = 0; i < v->count && std::ssize(largest) <= wanted; ++i)
      largest.push_back(v->s);
  Tail tail;
  tail.samples = wanted;
  tail.from_s = largest.back();
  tail.part = static_cast<double>(wanted) / static_cast<double>(all);
  double mean = 0, weighted = 0;
  for (std::int64_t i = 0; i < wanted; ++i) {  // the i-th largest excess
    const double excess = largest[i] - tail.from_s;
    const double exceeding = (static_cast<double>(i) + 0.35) / static_cast<double>(wanted);
    mean += excess / static_cast<double>(wanted);
    weighted += exceeding * excess / static_cast<double>(wanted);
  }
  if (!(mean > 0) || !(mean > 2 * weighted)) return {};
  tail.shape = std::clamp(2 - mean / (mean - 2 * weighted), -0.5, 0.75);
  tail.scale_s = mean * (1 - tail.shape);  // keeps the mean where the shape was bounded
  return tail;
}

double expected_maximum(const Distribution& d, const Tail& tail, double draws) {
  // Up to the tail: the expected minimum of the largest draw and tail.from_s.
  const auto all = static_cast<double>(d.count());
  double expected = 0, before = 0;
  std::int64_t count = 0;
  for (const auto& v : d.values) {
    if (v.s >= tail.from_s) break;
    count += v.count;
    const double now = std::pow(static_cast<double>(count) / all, draws);
    expected += v.s * (now - before);
    before = now;
  }
  expected += tail.from_s * (1 - before);
  // Above it: the integral of 1 - F(x)^draws, where x is substituted by t = -log of the probability
  // with which a value of the tail exceeds x. The integrand falls as exp(-(1 - shape) t) once
  // draws part exp(-t) is below 1.
  const double end = std::log(std::max(1.0, draws * tail.part)) + 40 / (1 - tail.shape);
  constexpr int intervals = 4000;  // even
  const double width = end / intervals;
  const auto integrand = [&](double t) {
    const double exceeding = tail.part * std::exp(-t);
    const double some = -std::expm1(draws * std::log1p(-exceeding));
    return some * tail.scale_s * std::exp(tail.shape * t);
  };
  double sum = integrand(0) + integrand(end);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * integrand(i * width);
  return expected + sum * width / 3;
}

}  // namespace shardmark
