// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/charts/table.hpp>

namespace shardmark::html {
namespace {

// What a heading says, without its markup.
std::string without_tags(std::string_view markup) {
  std::string text;
  bool inside = false;
  for (const char c : markup) {
    inside = c == '<' || (inside && c != '>');
    if (!inside && c != '>') text += c;
  }
  return text;
}

}  // namespace

std::string to_html(const Table& table) {
  constexpr std::size_t columns_of_cards = 5;
  const bool cards = table.head.size() >= columns_of_cards;
  std::string css(table.css);
  if (cards) css += css.empty() ? "cards" : " cards";
  std::string text = fmt::format("<div class=\"wide\"><table{}>\n",
                                 css.empty() ? "" : fmt::format(" class=\"{}\"", css));
  if (!table.caption.empty()) text += fmt::format("<caption>{}</caption>\n", table.caption);
  const auto style_of = [&](std::size_t column, std::size_t columns) {
    if (column >= table.text_columns && column + table.note_columns < columns)
      return " class=\"figure\"";
    return column + 1 == columns ? " class=\"note\"" : "";
  };
  const auto cells = [&](const char* tag, const std::vector<std::string>& row, bool named) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string name = named && i < table.head.size() ? without_tags(table.head[i]) : "";
      text +=
          fmt::format("<{}{}{}>{}</{}>", tag, style_of(i, row.size()),
                      name.empty() ? "" : fmt::format(" data-label=\"{}: \"", name), row[i], tag);
    }
    text += "</tr>\n";
  };
  if (!table.head.empty()) {
    text += "<thead>";
    cells("th", table.head, false);
    text += "</thead>";
  }
  text += "<tbody>\n";
  for (const auto& row : table.rows) cells("td", row, cards);
  return text + "</tbody></table></div>\n";
}

std::string bar(double value, double most, std::string_view css,
                std::optional<std::pair<double, double>> range) {
  const auto percent = [&](double v) { return most > 0 ? 100 * v / most : 0; };
  std::string text =
      fmt::format("<span class=\"bar\"><span class=\"{}\" style=\"width:{:.2f}%\"></span>", css,
                  percent(value));
  if (range)
    text += fmt::format("<span class=\"range\" style=\"left:{:.2f}%;width:{:.2f}%\"></span>",
                        percent(range->first), percent(range->second - range->first));
  return text + "</span>";
}

}  // namespace shardmark::html
