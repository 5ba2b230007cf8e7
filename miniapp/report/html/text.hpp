// SPDX-License-Identifier: Apache-2.0
// Formatting of text and tables for a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmark::html {

/// Makes any text of a deck or environment safe between tags and in quoted attributes: & < > " '
/// become entities, control characters become spaces, and bytes that are not UTF-8 become the
/// replacement character.
std::string escape(std::string_view text);

/// "116 403 480", grouped by narrow no-break spaces.
std::string grouped(std::int64_t number);

/// "2.693500" with `decimals` digits after the point, "nan", "inf", "-inf".
std::string decimal(double number, int decimals);

/// A table of figures with text at its sides.
struct Table {
  std::string caption;  // may be empty
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // cells are markup, which the caller has escaped
  std::size_t text_columns = 1;  // how many columns at the left are text; the others are figures
  std::size_t note_columns = 0;  // how many columns at the right are text again
};
/// The table as HTML.
std::string to_html(const Table& table);

/// A whole page that needs no other file, no network and no script. `title` is any text, `body` is
/// markup. The page is well-formed XML if the body is.
std::string document(std::string_view title, std::string_view body);

}  // namespace shardmark::html
