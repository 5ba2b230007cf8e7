// SPDX-License-Identifier: Apache-2.0
// A comparison as a page.
#include <miniapp/compare/comparison.hpp>
#include <miniapp/report/html/text.hpp>

namespace shardmark {
namespace {

std::string html_table(const Comparison& c, const std::string& caption,
                       const std::vector<ComparedRow>& rows) {
  if (rows.empty()) return {};
  html::Table table;
  table.caption = caption;
  table.head.emplace_back();
  for (const Subject& s : c.subjects) table.head.push_back(html::escape(s.label));
  for (const ComparedRow& row : rows) {
    std::vector<std::string> cells{html::escape(row.name)};
    for (const std::string& cell : row.cells) cells.push_back(html::escape(cell));
    table.rows.push_back(std::move(cells));
  }
  return html::to_html(table);
}

}  // namespace

std::string comparison_html(const Comparison& c) {
  std::string notes;
  for (const std::string& o : c.objections) notes += "<li>" + html::escape(o) + "</li>\n";
  return html::document(
      "ShardMark: comparison",
      "<main><h1>Comparison</h1>\n<p>" + html::escape(c.verdict()) + "</p>" +
          (notes.empty() ? "" : "<ul>" + notes + "</ul>") +
          html_table(c, "Figures, with the difference to the first", c.figures) +
          html_table(c, "What differs in the deck", c.deck) +
          html_table(c, "What differs in versions, placement and environment", c.environment) +
          "</main>\n");
}

}  // namespace shardmark
