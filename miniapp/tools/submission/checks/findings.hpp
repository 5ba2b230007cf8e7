// SPDX-License-Identifier: Apache-2.0
// What does not add up in a report. The checks of this folder add to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace shardmark {

/// Two figures of a report, or one and the same recomputed, are equal within this part of their
/// size: a report is printed with all digits, so only the order of operations may differ.
constexpr double rounding = 1e-9;

/// A figure with its name in a sentence: {"the p50 of the steps", 0.17}.
struct Named {
  std::string name;
  double value = 0;
};

/// The refusals of one run, in the order in which they were found.
class Findings {
 public:
  void refuse(std::string text) { refusals_.push_back(std::move(text)); }

  /// Refuses a reported value that is not the recomputed one.
  template<class T>
  void compare(std::string_view what, const T& reported, const T& recomputed) {
    if (reported != recomputed)
      refuse(fmt::format("{}: the report says {}, recomputed it is {}", what, shown(reported),
                         shown(recomputed)));
  }
  /// The same within `rounding`, of the values or of 1.
  void compare_number(std::string_view what, double reported, double recomputed);
  /// Refuses a value that is larger than a bound, by more than `rounding`. Not a number is larger
  /// than any bound.
  void at_most(const Named& figure, const Named& bound);
  /// Refuses what is no time: below 0, or not finite.
  void is_time(const Named& figure);
  /// The same, and 0.
  void is_positive(const Named& figure);

  std::vector<std::string> take() { return std::move(refusals_); }

 private:
  template<class T>
  static const T& shown(const T& value) {
    return value;
  }
  static std::string shown(const std::string& text) { return text.empty() ? "nothing" : text; }

  std::vector<std::string> refusals_;
};

}  // namespace shardmark
