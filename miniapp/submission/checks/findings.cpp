// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/submission/checks/findings.hpp>

namespace shardmark {

bool close(double a, double b) {
  return std::abs(a - b) <= rounding * std::max({1.0, std::abs(a), std::abs(b)});
}

void Findings::compare_number(std::string_view what, double reported, double recomputed) {
  if (!close(reported, recomputed))
    refuse(fmt::format("{}: the report says {}, recomputed it is {}", what, reported, recomputed));
}

}  // namespace shardmark
