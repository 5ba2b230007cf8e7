// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/charts/page.hpp>
#include <miniapp/charts/palette.hpp>
#include <miniapp/charts/text.hpp>

namespace shardmark::html {

namespace {

// The colours stand before it.
constexpr const char* style = R"css(
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 24px 20px 60px; max-width: 1040px; background: var(--page);
  color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
h1 { font-size: 22px; margin: 0 } h3 { font-size: 14px; margin: 18px 0 0; font-weight: 600 } h2 { font-size: 17px; margin: 34px 0 8px }
p { margin: 6px 0 } .soft, caption, .unit { color: var(--soft) }
header { border-bottom: 1px solid var(--line); padding-bottom: 16px }
.verdict { display: flex; flex-wrap: wrap; align-items: baseline; gap: 6px 18px; margin: 14px 0 6px }
.badge { font-weight: 700; letter-spacing: .04em; padding: 2px 12px; border: 2px solid;
  border-radius: 6px }
.good { color: var(--good) } .bad { color: var(--bad) } .warning { color: var(--warn) }
.fom { font-size: 30px; font-weight: 600; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: 6px 0; font-size: 14px }
caption { text-align: left; padding-bottom: 4px }
th, td { text-align: left; vertical-align: top; padding: 3px 18px 3px 0 }
td:first-child { white-space: nowrap } .note { min-width: 12em; overflow-wrap: anywhere } thead th { border-bottom: 1px solid var(--line); font-weight: 600 }
td .soft { white-space: nowrap } tbody tr + tr td { border-top: 1px solid var(--faint) }
.figure { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", monospace }
pre { background: var(--faint); padding: 12px; overflow-x: auto; border-radius: 6px }
svg { display: block; width: 100%; min-width: 640px; height: auto; font-size: 12px; overflow: visible }
svg text { fill: var(--ink) } svg text.unit { fill: var(--soft) } svg text.bad { fill: var(--bad) }
svg text.strong { font-weight: 600;
  paint-order: stroke; stroke: var(--page); stroke-width: 4px }
.grid { stroke: var(--line); stroke-width: .7 } .axis { stroke: var(--soft) }
path { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round }
line.skipped, line.lost, .ideal, .arena, .limit { stroke: var(--c); stroke-width: 1.5 }
.arena, .limit { stroke-dasharray: 6 4 } .predicted, .ideal { stroke-dasharray: 5 4 } rect, circle { fill: var(--c) }
rect.band { fill: var(--ink); opacity: .06 } .key.band { border: 1px solid var(--line) }
path.area { fill: var(--c); stroke: none }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; list-style: none; margin: 4px 0 10px;
  padding: 0; font-size: 13px }
.key { display: inline-block; width: 12px; height: 12px; margin-right: 6px; background: var(--c);
  vertical-align: -1px }
.key.curve { height: 3px; vertical-align: 4px }
.key.predicted, .key.ideal, .key.arena, .key.limit { height: 0; width: 18px; background: none;
  border-top: 2px dashed var(--c); vertical-align: 4px }
.key.skipped, .key.lost { width: 3px } .key.dot { width: 10px; height: 10px; border-radius: 50% }
.ranking th, .ranking td { padding-right: 12px } .ranking td:nth-child(2) { min-width: 130px }
.ranking td .soft { white-space: normal; overflow-wrap: anywhere } .ranking strong, .date { white-space: nowrap }
.ranking .note { min-width: 7em } .reasons { min-width: 10em }
.bar { display: block; position: relative; height: 10px; margin-top: 3px; background: var(--faint) }
.bar span { position: absolute; top: 0; height: 10px; background: var(--c) }
.bar .range { top: 4px; height: 2px; background: var(--ink) }
.bars { width: 100% } .bars td:first-child { white-space: normal; width: 30% } .bars td:last-child { width: 50% }
.pair { display: flex; flex-wrap: wrap; gap: 0 20px } .pair > div { flex: 1 1 340px; min-width: 0 }
.pair svg { min-width: 0 } .dense th.figure { white-space: normal; vertical-align: bottom }
.dense th, .dense td { padding-right: 12px }
@media (max-width: 700px) { .cards, .cards tbody, .cards tr, .cards td { display: block }
  .cards thead { display: none } .cards caption { display: block } .cards tr { padding: 8px 0; border-top: 1px solid var(--line) }
  .cards td { border: 0; padding: 1px 0; text-align: left; white-space: normal;
    min-width: 0; overflow-wrap: anywhere }
  .cards td::before { content: attr(data-label); color: var(--soft) }
  .cards td:empty { display: none } .cards .reasons { display: inline } .cards br { display: none } .cards td .soft { margin-left: 6px } }
.on-narrow { display: none } .on-narrow svg { min-width: 0 }
@media (max-width: 700px) { body { padding: 16px 12px 40px }
  td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 8.5em }
  th, td { padding-right: 9px } table { font-size: 13px } .note { min-width: 8em } svg { font-size: 14px }
  pre { white-space: pre-wrap; overflow-wrap: anywhere }
  .on-wide { display: none } .on-narrow { display: block } }
@media print { body { max-width: none; padding: 0; font-size: 11px }
  table, .legend, code, pre { font-size: 10px }
  h2 { break-after: avoid } table, svg { break-inside: avoid }
  .wide { overflow: visible } svg { min-width: 0 }
  .on-wide { display: block } .on-narrow { display: none }
  pre { white-space: pre-wrap } * { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
)css";

std::string colour_rules() {
  return fmt::format(
      "\n:root {{ color-scheme: light dark;\n  {}}}\n"
      "@media screen and (prefers-color-scheme: dark) {{ :root {{\n  {}}} }}",
      colour_variables(false), colour_variables(true));
}

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

std::string document(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{}</title>\n<style>{}{}{}</style></head><body>\n{}</body></html>\n",
      escape(title), colour_rules(), style, class_rules(), body);
}

std::string list(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return {};
  std::string text = "<ul>\n";
  for (const std::string& s : sentences) text += "<li>" + escape(s) + "</li>\n";
  return text + "</ul>\n";
}

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

std::string text_table(std::vector<std::vector<std::string>> rows, std::size_t text_columns,
                       std::string_view css) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = escape(cell);
  return to_html(Table{"", rows.front(), {rows.begin() + 1, rows.end()}, text_columns, 0, css});
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
