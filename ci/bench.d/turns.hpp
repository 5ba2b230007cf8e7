// SPDX-License-Identifier: Apache-2.0
// Shared by the programs here: the things that are compared take turns in one run, so that they
// meet the same conditions, and a figure is a median with its spread.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/core.h>

namespace shardmark::bench {

template<class Work>
double seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Spread {
  double median = 0, least = 0, most = 0;
};

inline Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

/// The ratios of two series, turn by turn: noise that lasts longer than a turn affects both.
inline Spread ratio(const std::vector<double>& of, const std::vector<double>& to) {
  std::vector<double> r;
  for (std::size_t i = 0; i < of.size(); ++i) r.push_back(of[i] / to[i]);
  return spread(std::move(r));
}

/// Prints one line for people and one for programs; `target` is what the figure should reach.
inline void print_figure(const std::string& what, const Spread& s, const std::string& unit,
                         const std::string& target, const std::string& note) {
  fmt::print("{:<58} {:>8.3f} {:<6} ({:.3f} to {:.3f})  {:<9} {}\n", what, s.median, unit, s.least,
             s.most, target, note);
  fmt::print(R"({{"what": "{}", "value": {:.6g}, "least": {:.6g}, "most": {:.6g}, "unit": "{}", )"
             R"("target": "{}", "note": "{}"}})"
             "\n",
             what, s.median, s.least, s.most, unit, target, note);
  std::fflush(stdout);
}

}  // namespace shardmark::bench
