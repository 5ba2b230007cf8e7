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

std::string named(const Dim& dim, const std::string& value) {
  return short_name(dim.key) + " " + value;
}

// All combinations of the dimensions' values; without dimensions there is one, which is empty.
std::vector<std::vector<std::string>> combinations(const std::vector<Dim>& dims) {
  std::vector<std::vector<std::string>> all(1);
  for (const Dim& dim : dims) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& c : all)
      for (const std::string& value : dim.values) {
        longer.push_back(c);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<double> Dim::numbers() const {
  std::vector<double> list;
  if (short_name(key) == "stage") return {};
  for (const std::string& text : values) {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end || !std::isfinite(number)) return {};
    list.push_back(number);
  }
  return list;
}

std::vector<Dim> dims_of(const Sweep& sweep) {
  std::vector<Dim> dims;
  for (const Axis& axis : sweep.axes) dims.push_back({axis.key, axis.values});
  Dim ranks{ranks_key, {}};
  for (const int n : sweep.ranks) ranks.values.push_back(std::to_string(n));
  dims.push_back(ranks);
  std::erase_if(dims, [](const Dim& d) { return d.values.size() < 2; });
  return dims;
}

std::string name_of(const SweepPoint& point, const std::vector<Dim>& dims) {
  std::string name;
  for (const Dim& d : dims) add_item(name, named(d, value_of(point, d.key)));
  return name;
}

SeriesSet series_over(const Sweep& sweep, const std::vector<Dim>& dims, std::size_t dim) {
  SeriesSet set;
  std::vector<Dim> others = dims, held;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(dim));
  const auto count = [&] {
    std::size_t n = 1;
    for (const Dim& d : others) n *= d.values.size();
    return n;
  };
  while (count() > most_series) {  // fixes the last dimensions first, at their first values
    held.push_back({others.back().key, {others.back().values.front()}});
    others.pop_back();
    add_item(set.held, named(held.back(), held.back().values.front()));
  }
  for (const auto& values : combinations(others)) {
    Series& series = set.list.emplace_back();
    for (std::size_t d = 0; d < others.size(); ++d)
      add_item(series.name, named(others[d], values[d]));
    series.points.resize(dims[dim].values.size(), nullptr);
    for (const SweepPoint& p : sweep.points) {
      bool belongs = true;
      for (std::size_t d = 0; d < others.size(); ++d)
        belongs = belongs && value_of(p, others[d].key) == values[d];
      for (const Dim& h : held) belongs = belongs && value_of(p, h.key) == h.values.front();
      if (!belongs) continue;
      const auto& of = dims[dim].values;
      const auto at = std::find(of.begin(), of.end(), value_of(p, dims[dim].key));
      series.points[at - of.begin()] = &p;
    }
  }
  return set;
}

}  // namespace shardmark::html
