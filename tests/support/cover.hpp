// SPDX-License-Identifier: Apache-2.0
// Pairwise covers: few rows in which every pair of values of any two factors occurs.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace shardmark::test {

/// Each row has one value index per factor. `levels[f]` is the number of values of factor f. The
/// algorithm is greedy and gives the same rows in every run; it adds rows until there are
/// `at_least`.
inline std::vector<std::vector<int>> pairwise_cover(const std::vector<int>& levels,
                                                    std::size_t at_least) {
  using Pair = std::tuple<int, int, int, int>;
  const auto factors = static_cast<int>(levels.size());
  std::set<Pair> open;
  for (int a = 0; a < factors; ++a)
    for (int b = a + 1; b < factors; ++b)
      for (int i = 0; i < levels[a]; ++i)
        for (int j = 0; j < levels[b]; ++j) open.insert({a, b, i, j});
  auto pairs_of = [&](const std::vector<int>& row) {
    std::vector<Pair> pairs;
    for (int a = 0; a < factors; ++a)
      for (int b = a + 1; b < factors; ++b) pairs.push_back({a, b, row[a], row[b]});
    return pairs;
  };
  // Only the raw output of the generator is the same on every machine.
  std::mt19937 random(20240229);
  auto any = [&](int f) { return static_cast<int>(random() % static_cast<unsigned>(levels[f])); };
  std::vector<std::vector<int>> rows;
  while (!open.empty() || rows.size() < at_least) {
    std::vector<int> best;
    std::size_t most = 0;
    for (int candidate = 0; candidate < 30; ++candidate) {
      std::vector<int> row(levels.size());
      for (int f = 0; f < factors; ++f) row[f] = any(f);
      if (!open.empty()) {  // at least one open pair
        const auto [a, b, i, j] = *open.begin();
        row[a] = i, row[b] = j;
      }
      std::size_t fresh = 0;
      for (const Pair& p : pairs_of(row)) fresh += open.count(p);
      if (best.empty() || fresh > most) best = row, most = fresh;
    }
    for (const Pair& p : pairs_of(best)) open.erase(p);
    rows.push_back(std::move(best));
  }
  return rows;
}

}  // namespace shardmark::test
