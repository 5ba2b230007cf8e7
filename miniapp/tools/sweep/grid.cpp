// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <miniapp/tools/sweep/grid.hpp>

namespace shardmark {
namespace {

// Splits at commas that are outside brackets, braces and quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      values.back() += c;
      values.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (c == ',' && !quoted && depth == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

template<class T>
bool repeats(std::vector<T> list) {
  std::ranges::sort(list);
  return std::ranges::adjacent_find(list) != list.end();
}

}  // namespace

Axis parse_axis(const std::string& argument) {
  const auto equals = argument.find('=');
  const auto refuse = [&](const char* what) {
    throw DeckError(fmt::format("--vary {}: {}: write it like --vary run.schedule=deepspeed,paper",
                                argument, what));
  };
  if (equals == std::string::npos || equals == 0) refuse("must be key.path=value,value");
  Axis axis{argument.substr(0, equals),
            split_values(std::string_view(argument).substr(equals + 1))};
  if (axis.key == "ranks")
    throw DeckError(fmt::format(
        "--vary {}: ranks is not a key of a deck: with --plan give --ranks 1,2,4; to run, "
        "start the sweep with mpiexec -n 1, then -n 2, … and the same --out",
        argument));
  if (std::find(axis.values.begin(), axis.values.end(), "") != axis.values.end())
    refuse("a value is empty");
  if (repeats(axis.values)) refuse("a value is given twice");
  return axis;
}

std::vector<Axis> parse_axes(const std::vector<std::string>& arguments) {
  std::vector<Axis> axes;
  std::vector<std::string> keys;
  for (const std::string& argument : arguments) {
    axes.push_back(parse_axis(argument));
    keys.push_back(axes.back().key);
    if (repeats(keys))
      throw DeckError(
          fmt::format("--vary {}: the key is given twice: give all of its values in one "
                      "--vary",
                      axes.back().key));
  }
  return axes;
}

std::vector<int> parse_ranks(const std::string& argument) {
  std::vector<int> ranks;
  for (const std::string& text : split_values(argument)) {
    int n = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, n);
    if (error != std::errc{} || stop != end || n < 1)
      throw DeckError(fmt::format(
          "--ranks {}: \"{}\": must be integers, at least 1 and below 2^31, with commas between",
          argument, text));
    ranks.push_back(n);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<std::string> GridPoint::sets() const {
  std::vector<std::string> list;
  for (const auto& [key, value] : values) list.push_back(key + "=" + value);
  return list;
}

std::string GridPoint::name() const {
  auto list = sets();
  std::ranges::sort(list);
  return fmt::format("ranks={}\n{}", ranks, join(list, "\n"));
}

std::vector<GridPoint> points_of(const std::vector<Axis>& axes, const std::vector<int>& ranks) {
  std::vector<GridPoint> points;
  for (const int n : ranks) points.push_back({n, {}});
  for (const Axis& axis : axes) {
    if (points.size() > most_points / axis.values.size())
      throw DeckError(fmt::format("--vary {}: the grid has more than {} points: vary less at once",
                                  axis.key, most_points));
    std::vector<GridPoint> wider;
    for (const GridPoint& p : points)
      for (const std::string& value : axis.values) {
        wider.push_back(p);
        wider.back().values.emplace_back(axis.key, value);
      }
    points = std::move(wider);
  }
  return points;
}

std::string short_name(const std::string& key) {
  const auto dot = key.rfind('.');
  return dot == std::string::npos ? key : key.substr(dot + 1);
}

}  // namespace shardmark
