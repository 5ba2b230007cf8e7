// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include <core/number_list.hpp>

namespace shardmark {
namespace {

// Removes a number from the front of `text`; false if there is none.
bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

constexpr int most_numbers = 1 << 20;  // a mistake in a system file must not fill the memory

}  // namespace

std::string format_numbers(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
    if (i > first) text += fmt::format("-{}", numbers[i]);
  }
  return text;
}

std::vector<int> parse_numbers(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  std::vector<int> numbers;
  do {
    int first = 0;
    if (!take_number(text, first)) return {};
    int last = first;
    if (take(text, '-') && !take_number(text, last)) return {};
    if (last < first || last - first >= most_numbers) return {};
    for (int n = first; n <= last; ++n) numbers.push_back(n);
  } while (take(text, ','));
  if (!text.empty()) return {};
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace shardmark
