// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/rules/official_rules.hpp>
#include <miniapp/tools/submission/ranking.hpp>

namespace shardmark {
namespace {

using html::escape;

std::string grouped_figure(double value) {
  return value >= 1000 ? html::grouped(std::llround(value)) : four_digits(value);
}

std::string text_or_dash(const std::string& text) {
  return text.empty() ? "–" : escape(text);
}

// Two lines of a cell.
std::string above(const std::string& markup, const std::string& soft) {
  return fmt::format("{}<br/><span class=\"soft\">{}</span>", markup, soft);
}

// An entry without a place has its processor in this cell, which leaves room for the reasons.
std::string who(const RankedEntry& e, bool ranked) {
  return above(text_or_dash(e.organisation),
               text_or_dash(e.system) + (ranked ? "" : " <br/>" + text_or_dash(e.processor)));
}

// The second figure of a storage deck, below its bar.
std::string reads_below(const RankedEntry& e) {
  const auto reads = e.median_read();
  return reads ? fmt::format("<span class=\"soft\">{} GiB/s read</span>", grouped_figure(*reads))
               : "";
}

// The bar ends at the median; the line is the range of all runs.
std::vector<std::string> entry_row(const RankedEntry& e, double most, bool ranked) {
  const double low = e.values.front(), high = e.values.back();
  std::vector<std::string> row{
      ranked ? fmt::format("<strong>{}</strong>", e.place)
             : above(fmt::format("<strong>{}</strong>", escape(e.work.deck)),
                     shown_parameters(e.work.parameters) + " parameters"),
      fmt::format("<strong>{} {}</strong>{}{}", grouped_figure(e.median()),
                  escape(unit_of(e.work.figure)),
                  html::bar(e.median(), most, "series0", std::pair(low, high)), reads_below(e)),
      fmt::format("{} to {}", grouped_figure(low), grouped_figure(high)),
      std::to_string(e.values.size()),
      ranked ? std::to_string(e.nodes)
             : above(std::to_string(e.work.ranks), "on " + plural(e.nodes, "node")),
      grouped_figure(e.per_rank()),
      who(e, ranked),
      above(fmt::format("<span class=\"date\">{}</span>", escape(e.date)), escape(e.file))};
  if (ranked)
    row.insert(row.end() - 1, text_or_dash(e.processor));
  else
    row.insert(row.begin() + 6, fmt::format("<div class=\"reasons\">{}</div>",
                                            above(e.why_not(), escape(join(e.reasons, "; ")))));
  return row;
}

std::string entries_table(const std::vector<RankedEntry>& entries, std::size_t first,
                          std::size_t last, bool ranked) {
  html::Table table{
      "",
      {ranked ? "place" : "deck", "median", "lowest to highest", "runs", ranked ? "nodes" : "ranks",
       "per rank", ranked ? "organisation, system" : "organisation, system, processor",
       "date, archive"},
      {},
      3,
      3,
      "ranking"};
  if (ranked)
    table.head.insert(table.head.end() - 1, "processor");
  else
    table.head.insert(table.head.begin() + 6, "not ranked because");
  for (std::size_t i = first; i < last; ++i) {
    double most = 0;  // of the entries with the same work
    for (std::size_t k = first; k < last; ++k)
      if (entries[k].work == entries[i].work) most = std::max(most, entries[k].values.back());
    table.rows.push_back(entry_row(entries[i], most, ranked));
  }
  return to_html(table);
}

std::string contests(const std::vector<RankedEntry>& entries) {
  std::string markup;
  for (std::size_t first = 0; first < entries.size();) {
    std::size_t last = first;
    while (last < entries.size() && entries[last].work == entries[first].work) ++last;
    markup += fmt::format(
        "<h2>{}</h2>\n<p class=\"soft\">{}; {} by the median</p>\n{}",
        escape(describe(entries[first].work)), escape(describe_size(entries[first].work)),
        escape(unit_of(entries[first].work.figure)), entries_table(entries, first, last, true));
    first = last;
  }
  return markup;
}

}  // namespace

std::string ranking_html(const Ranking& ranking) {
  std::string body = fmt::format(
      "<header><h1>ShardMark: results</h1>\n<p>Each run was verified: its plan was made again from "
      "its deck, and its figures were recomputed. A row is the median of at least {} official "
      "runs; "
      "the thin line is their range. Only runs of the same work on as many ranks are ranked "
      "against "
      "each other.</p></header>\n<main>\n",
      OfficialRules::runs);
  body += contests(ranking.ranked);
  if (!ranking.unranked.empty())
    body += fmt::format(
        "<h2>Not ranked</h2>\n<p class=\"soft\">A place needs {} official runs of one "
        "deck.</p>\n{}",
        OfficialRules::runs, entries_table(ranking.unranked, 0, ranking.unranked.size(), false));
  if (ranking.ranked.empty() && ranking.unranked.empty()) body += "<p>No run is verified.</p>\n";
  return html::document("ShardMark: results", body + "</main>\n");
}

}  // namespace shardmark
