// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include <fmt/core.h>

#include <core/text.hpp>

namespace shardmark {

std::string plural(std::int64_t count, std::string_view thing) {
  const auto hisses = [&](std::string_view end) { return thing.ends_with(end); };
  const bool es = hisses("ch") || hisses("sh") || hisses("s") || hisses("x");
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : es ? "es" : "s");
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return lower;
}

std::string csv_quoted(std::string_view cell) {
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

void add_item(std::string& list, std::string_view item, std::string_view separator) {
  if (!list.empty()) list += separator;
  list += item;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::vector<std::string> in_columns(const std::vector<std::vector<std::string>>& rows,
                                    const ColumnLayout& layout) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - characters(row[i]), ' ');
      line += i == 0 ? layout.indent : layout.gap;
      line += i < layout.left ? row[i] + blanks : blanks + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

std::string human_bytes(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024.0 && unit + 1 < units.size()) value /= 1024.0, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.4g} {}", value, units[unit]);
}

std::string four_digits(double value) {
  if (!std::isfinite(value)) return "–";
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "–";
  const double size = std::abs(seconds);
  if (size >= 1 || size == 0) return fmt::format("{:.3g} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} µs", seconds * 1e6);
}

std::string clock_time(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::string name_of_file(const std::string& path) {
  const auto slash = path.find_last_of('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.ends_with(".json") ? name.substr(0, name.size() - 5) : name;
}

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

namespace {

// Removes a number from the front of `text`. Returns false if it does not begin with one.
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
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace shardmark
