// SPDX-License-Identifier: Apache-2.0
// Text that goes into a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmark::html {

/// Safe between tags and in quoted attributes, whatever a deck or an environment holds: & < > " '
/// become entities, control characters (no page may have them) spaces, and what is no UTF-8 a
/// replacement character.
std::string escape(std::string_view text);

/// "116 403 480", grouped by narrow no-break spaces.
std::string grouped(std::int64_t number);

/// "2.693500" with `decimals` digits after the point, "nan", "inf", "-inf".
std::string decimal(double number, int decimals);

/// "12.3 ms", "1.23 s", "450 µs": three digits in the unit that suits.
std::string duration(double seconds);

struct Table {
  std::string caption;  // may be empty
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // cells are markup: escaped by who makes them
  std::size_t text_columns = 1;                // the first ones; the others are figures
  std::size_t note_columns = 0;                // but for the last ones, which are text again
};
std::string to_html(const Table& table);

}  // namespace shardmark::html
