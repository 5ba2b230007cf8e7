// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/tools/submission/checks/findings.hpp>

namespace shardmark {

void Findings::compare_number(std::string_view what, double reported, double recomputed) {
  const double size = std::max({1.0, std::abs(reported), std::abs(recomputed)});
  if (!(std::abs(reported - recomputed) <= rounding * size))
    refuse(fmt::format("{}: the report says {}, recomputed it is {}", what, reported, recomputed));
}

void Findings::at_most(const Named& figure, const Named& bound) {
  const double slack = rounding * std::max(std::abs(figure.value), std::abs(bound.value));
  if (!(figure.value <= bound.value + slack))
    refuse(fmt::format("{} is {:.7g}, more than {}{} {:.7g}", figure.name, figure.value, bound.name,
                       bound.name.ends_with(',') ? "" : ",", bound.value));
}

void Findings::is_time(const Named& figure) {
  if (!std::isfinite(figure.value) || figure.value < 0)
    refuse(fmt::format("{} is {}: no time is", figure.name, figure.value));
}

void Findings::is_positive(const Named& figure) {
  if (!std::isfinite(figure.value) || figure.value <= 0)
    refuse(fmt::format("{} is {}: it must be more than 0", figure.name, figure.value));
}

}  // namespace shardmark
