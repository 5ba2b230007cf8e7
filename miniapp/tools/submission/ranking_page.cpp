// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/report/html/text.hpp>
#include <miniapp/tools/submission/ranking.hpp>

namespace shardmark {
namespace {

using html::escape;

std::string grouped_figure(double value) {
  return value >= 1000 ? html::grouped(std::llround(value)) : shown_figure(value);
}

// A bar from 0 to the median, with the range of all runs as a thin line.
std::string entry_bar(const RankedEntry& e, double most) {
  const auto part = [&](double value) { return most > 0 ? 100 * value / most : 0; };
  const double low = part(e.values.front()), high = part(e.values.back());
  return fmt::format(
      "<span class=\"bar\"><span class=\"series0\" style=\"width:{:.2f}%\"></span>"
      "<span class=\"range\" style=\"left:{:.2f}%;width:{:.2f}%\"></span></span>",
      part(e.median()), low, high - low);
}

std::string labelled(std::string_view label, const std::string& markup, std::string_view css = "") {
  return fmt::format("<td data-label=\"{}\"{}>{}</td>", label,
                     css.empty() ? "" : fmt::format(" class=\"{}\"", css), markup);
}

std::string text_or_dash(const std::string& text) {
  return text.empty() ? "–" : escape(text);
}

std::string entry_row(const RankedEntry& e, double most, bool ranked) {
  const std::string unit = unit_of(e.work.figure);
  std::string markup = "<tr>";
  if (ranked)
    markup += labelled("place", std::to_string(e.place), "strong");
  else
    markup += labelled(
        "deck", fmt::format("<strong>{}</strong><br/><span class=\"soft\">{} parameters</span>",
                            escape(e.work.deck), shown_parameters(e.work.parameters)));
  markup += labelled("median",
                     fmt::format("<strong>{} {}</strong>{}", grouped_figure(e.median()),
                                 escape(unit), entry_bar(e, most)),
                     "measure");
  markup += labelled("lowest to highest", fmt::format("{} to {}", grouped_figure(e.values.front()),
                                                      grouped_figure(e.values.back())));
  markup += labelled("runs", std::to_string(e.values.size()), "figure");
  markup += labelled("nodes", std::to_string(e.nodes), "figure");
  if (!ranked) {
    markup += labelled("ranks", std::to_string(e.work.ranks), "figure");
    markup +=
        labelled("not ranked because", fmt::format("{}<br/><span class=\"soft\">division {}</span>",
                                                   e.why_not(), to_string(e.work.division)));
  }
  markup += labelled("per rank", grouped_figure(e.per_rank()), "figure");
  markup += labelled("organisation, system",
                     fmt::format("{}<br/><span class=\"soft\">{}</span>",
                                 text_or_dash(e.organisation), text_or_dash(e.system)));
  markup += labelled("processor", text_or_dash(e.processor));
  markup +=
      labelled("date, archive",
               fmt::format("<span class=\"date\">{}</span><br/><span class=\"soft\">{}</span>",
                           escape(e.date), escape(e.file)));
  return markup + "</tr>\n";
}

std::string entries_table(const std::vector<RankedEntry>& entries, std::size_t first,
                          std::size_t last, bool ranked) {
  std::string markup = "<table class=\"ranking\"><thead><tr>";
  std::vector<std::string> names{ranked ? "place" : "deck", "median", "lowest to highest", "runs",
                                 "nodes"};
  if (!ranked) names.insert(names.end(), {"ranks", "not ranked because"});
  names.insert(names.end(), {"per rank", "organisation, system", "processor", "date, archive"});
  for (const std::string& name : names) {
    const bool figure = name == "runs" || name == "nodes" || name == "ranks" || name == "per rank";
    markup += fmt::format("<th{}>{}</th>", figure ? " class=\"figure\"" : "", name);
  }
  markup += "</tr></thead><tbody>\n";
  for (std::size_t i = first; i < last; ++i) {
    double most = 0;  // of the entries with the same work
    for (std::size_t k = first; k < last; ++k)
      if (entries[k].work == entries[i].work) most = std::max(most, entries[k].values.back());
    markup += entry_row(entries[i], most, ranked);
  }
  return markup + "</tbody></table>\n";
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
      required_repetitions);
  body += contests(ranking.ranked);
  if (!ranking.unranked.empty())
    body += fmt::format(
        "<h2>Not ranked</h2>\n<p class=\"soft\">A place needs {} official runs of one "
        "deck.</p>\n{}",
        required_repetitions, entries_table(ranking.unranked, 0, ranking.unranked.size(), false));
  if (ranking.ranked.empty() && ranking.unranked.empty()) body += "<p>No run is verified.</p>\n";
  return html::document("ShardMark: results", body + "</main>\n");
}

}  // namespace shardmark
