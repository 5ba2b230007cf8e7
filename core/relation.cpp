// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>

#include <fmt/core.h>

#include <core/relation.hpp>

namespace shardmark {
namespace {

constexpr double largest_percentage = 10;  // as a factor

// "17 214", "123", "12.3": three digits, or whole numbers in groups of three digits.
std::string factor_text(double value) {
  if (value >= 1e15) return fmt::format("{:.3g}", value);
  if (value < 100) return fmt::format("{:.3g}", value);
  std::string text = std::to_string(std::llround(value));
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, " ");
  return text;
}

}  // namespace

std::string relation(double value, double reference) {
  if (!std::isfinite(value) || !std::isfinite(reference) || value < 0 || reference <= 0) return {};
  const double ratio = value / reference;
  if (!std::isfinite(ratio) || (ratio > 0 && !std::isfinite(1 / ratio))) return {};
  if (ratio > largest_percentage) return factor_text(ratio) + " times";
  if (ratio > 0 && ratio < 1 / largest_percentage)
    return fmt::format("1/{} of it", factor_text(1 / ratio));
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

}  // namespace shardmark
