// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>

#include <core/text.hpp>
#include <miniapp/tools/sweep/html/sweep_dims.hpp>

namespace shardmark::html {
namespace {

constexpr const char* ranks_key = "ranks";

std::string value_of(const SweepPoint& p, const std::string& key) {
  if (key == ranks_key) return std::to_string(p.at.ranks);
  for (const auto& [name, value] : p.at.values)
    if (name == key) return value;
  return {};
}

std::string named(const Axis& dim, const std::string& value) {
  return short_name(dim.key) + " " + value;
}

}  // namespace

std::vector<double> numbers_of(const Axis& dim) {
  std::vector<double> list;
  if (short_name(dim.key) == "stage") return {};
  for (const std::string& text : dim.values) {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end || !std::isfinite(number)) return {};
    list.push_back(number);
  }
  return list;
}

std::vector<Axis> dims_of(const Sweep& sweep) {
  std::vector<Axis> dims = sweep.axes;
  Axis& ranks = dims.emplace_back(Axis{ranks_key, {}});
  for (const int n : sweep.ranks) ranks.values.push_back(std::to_string(n));
  std::erase_if(dims, [](const Axis& d) { return d.values.size() < 2; });
  return dims;
}

std::string name_of(const SweepPoint& point, const std::vector<Axis>& dims) {
  std::string name;
  for (const Axis& d : dims) add_item(name, named(d, value_of(point, d.key)));
  return name;
}

SeriesSet series_over(const Sweep& sweep, const std::vector<Axis>& dims, std::size_t dim) {
  SeriesSet set;
  std::vector<Axis> others = dims;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(dim));
  const auto count = [&] {
    std::size_t n = 1;
    for (const Axis& d : others) n *= d.values.size();
    return n;
  };
  // Fixes the last dimensions first, at their first values.
  for (auto held = others.rbegin(); count() > most_series; ++held) {
    held->values.resize(1);
    add_item(set.held, named(*held, held->values.front()));
  }
  for (const GridPoint& other : points_of(others, {0})) {
    Series& series = set.list.emplace_back();
    for (std::size_t d = 0; d < others.size(); ++d)
      if (others[d].values.size() > 1)
        add_item(series.name, named(others[d], other.values[d].second));
    series.points.resize(dims[dim].values.size(), nullptr);
    for (const SweepPoint& p : sweep.points) {
      const auto has = [&](const auto& v) { return value_of(p, v.first) == v.second; };
      if (!std::ranges::all_of(other.values, has)) continue;
      const auto& of = dims[dim].values;
      series.points[std::ranges::find(of, value_of(p, dims[dim].key)) - of.begin()] = &p;
    }
  }
  return set;
}

}  // namespace shardmark::html
