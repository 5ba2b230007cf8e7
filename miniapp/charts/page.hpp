// SPDX-License-Identifier: Apache-2.0
// A whole page, for light, dark and narrow screens and for paper.
// Tables, and bars in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardmark::html {

/// A page that needs no other file, no network and no script. `title` is any text, `body` is
/// markup. The page is well-formed XML if the body is.
std::string document(std::string_view title, std::string_view body);

/// Returns a list of `sentences`, which may be any text, or "" if there are none.
std::string list(const std::vector<std::string>& sentences);

/// A table of figures with text at its sides.
struct Table {
  std::string caption;  // may be empty
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // cells are markup, which the caller has escaped
  std::size_t text_columns = 1;  // how many columns at the left are text; the others are figures
  std::size_t note_columns = 0;  // how many columns at the right are text again
  std::string_view css = {};     // classes of the style
};
/// The table as HTML. On narrow screens, a table of five columns or more shows each row as a list
/// of named cells.
std::string to_html(const Table& table);
/// A table of any text, of which the first row is the head.
std::string text_table(std::vector<std::vector<std::string>> rows, std::size_t text_columns = 1,
                       std::string_view css = {});

/// A bar from 0 to `value`, where `most` is as long as the cell, with a range as a thin line.
std::string bar(double value, double most, std::string_view css,
                std::optional<std::pair<double, double>> range = std::nullopt);

}  // namespace shardmark::html
