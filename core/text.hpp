// SPDX-License-Identifier: Apache-2.0
// Numbers and lists as people read them, for every message, report and page.
// How one figure relates to another, in words that stay readable when they are far apart.
// Sets of small numbers as the kernel writes them: "0-3,8". Cores, NUMA nodes, ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardmark {

inline constexpr double mib_bytes = 1024.0 * 1024.0;
inline constexpr double gib_bytes = 1024.0 * mib_bytes;

/// The name of a file without its folder and without `.json`: "gpt2-1.5b" of
/// "inputs/gpt2-1.5b.json", and of a deck that is called by its name.
std::string name_of_file(const std::string& path);

/// "1 rank", "3 ranks": `thing` is the singular of a noun whose plural ends in s.
std::string plural(std::int64_t count, std::string_view thing);

/// The parts, which are text or integers, with `separator` between them.
template<class Range>
std::string join(const Range& parts, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) text += separator;
    first = false;
    if constexpr (std::is_integral_v<std::decay_t<decltype(part)>>)
      text += std::to_string(part);
    else
      text += part;
  }
  return text;
}

/// Appends an item to a list in words, behind the separator if the list has others.
void add_item(std::string& list, std::string_view item, std::string_view separator = ", ");

/// The text with the letters A to Z in lower case.
std::string lower_case(std::string_view text);

/// A cell of a CSV file in quotes, as RFC 4180 has it: quotes inside it are doubled.
std::string csv_quoted(std::string_view cell);

/// How many characters a text of UTF-8 has.
std::size_t characters(std::string_view text);

/// How a table of text is laid out.
struct ColumnLayout {
  std::size_t left = 1;  // so many columns are aligned left, the others right
  std::string_view gap = "  ", indent = "  ";
};
/// One line for each row of cells, without blanks at its end. Columns are as wide as their cells.
std::vector<std::string> in_columns(const std::vector<std::vector<std::string>>& rows,
                                    const ColumnLayout& layout = {});

/// Four digits in a unit of powers of 1024: "1.234 GiB"; whole bytes below 1 KiB.
std::string human_bytes(std::int64_t bytes);

/// A figure with at least four digits and no exponent: "0.1235", "52.13", "39881"; "–" if it is not
/// finite.
std::string four_digits(double value);

/// "12.3 ms", "1.23 s", "450 µs": three digits in the unit that suits; "–" if it is not finite.
std::string duration(double seconds);

/// Whole seconds as a clock shows them: "42 s", "3:05 min", "1:30 h". A negative time counts as 0.
std::string clock_time(double seconds);

/// "+12.3 %" or "-45.0 %"; beyond a factor of ten "17 214 times" or "1/12 of it". Empty if there is
/// no ratio, because one of the two is negative or no number or the reference is 0.
std::string relation(double value, double reference);

/// `numbers` ascending and without duplicates; {0, 1, 2, 3, 8} gives "0-3,8", none gives "".
std::string format_numbers(const std::vector<int>& numbers);

/// The reverse, ascending. Empty if `text` is no such list; blanks at its end are ignored.
std::vector<int> parse_numbers(std::string_view text);

}  // namespace shardmark
