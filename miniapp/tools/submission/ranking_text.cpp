// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <miniapp/rules/official_rules.hpp>
#include <miniapp/tools/submission/ranking.hpp>

namespace shardmark {
namespace {

using TextRow = std::vector<std::string>;

// Names are cut so that a row has at most `widest_row` characters, if the shortest limit of a name
// allows that. The CSV and the page have them whole.
constexpr std::size_t widest_row = 160;
constexpr std::size_t shortest_limit = 17, longest_limit = 64;

std::string name_of(const std::string& text, std::size_t limit) {
  return text.empty() ? "-" : printable(text, limit);
}

// `rows_within(limit)` returns the rows with names of at most that many characters.
template<class Rows>
std::string fitting_table(Rows rows_within) {
  for (std::size_t limit = longest_limit;; --limit) {
    const std::vector<TextRow> rows = rows_within(limit);
    const std::vector<std::string> lines = in_columns(rows, {.left = rows.front().size()});
    const bool fits = std::ranges::all_of(
        lines, [](const std::string& line) { return characters(line) <= widest_row; });
    if (fits || limit == shortest_limit) return join(lines, "\n") + "\n";
  }
}

TextRow figures_of(const RankedEntry& e) {
  return {four_digits(e.median()),      four_digits(e.values.front()),
          four_digits(e.values.back()), std::to_string(e.values.size()),
          std::to_string(e.nodes),      four_digits(e.per_rank())};
}

std::string archive_of(const RankedEntry& e) {
  return e.file.substr(e.file.rfind('/') + 1);
}

TextRow names_of(const RankedEntry& e, std::size_t limit) {
  return {name_of(e.organisation, limit), name_of(e.system, limit), name_of(e.processor, limit),
          e.date, name_of(archive_of(e), limit)};
}

// The second figure of a storage deck.
std::string reads_of(const RankedEntry& e) {
  const auto reads = e.median_read();
  return reads ? four_digits(*reads) : "-";
}

TextRow joined(TextRow row, const TextRow& more) {
  row.insert(row.end(), more.begin(), more.end());
  return row;
}

const TextRow names_head{"organisation", "system", "processor", "date", "archive"};

std::string ranked_text(const std::vector<RankedEntry>& entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size();) {
    const RankedWork& work = entries[i].work;
    const std::string unit = unit_of(work.figure);
    const std::size_t first = i;
    while (i < entries.size() && entries[i].work == work) ++i;
    const bool reads = std::any_of(&entries[first], &entries[first] + (i - first),
                                   [](const RankedEntry& e) { return !e.reads.empty(); });
    const auto with_reads = [&](TextRow row, std::string cell) {
      if (reads) row.push_back(std::move(cell));
      return row;
    };
    const auto rows_within = [&](std::size_t limit) {
      const TextRow head{"place", "median " + unit, "lowest",  "highest",
                         "runs",  "nodes",          "per rank"};
      std::vector<TextRow> rows{joined(with_reads(head, "GiB/s read"), names_head)};
      for (std::size_t k = first; k < i; ++k)
        rows.push_back(
            joined(with_reads(joined({std::to_string(entries[k].place)}, figures_of(entries[k])),
                              reads_of(entries[k])),
                   names_of(entries[k], limit)));
      return rows;
    };
    text += fmt::format("{}: {}\n{}\n", printable(describe(work)), describe_size(work),
                        fitting_table(rows_within));
  }
  return text;
}

std::string unranked_text(const std::vector<RankedEntry>& entries) {
  if (entries.empty()) return {};
  const auto rows_within = [&](std::size_t limit) {
    std::vector<TextRow> rows{{"deck", "parameters", "median", "lowest", "highest", "runs", "ranks",
                               "nodes", "division", "because", "organisation", "date", "archive"}};
    for (const RankedEntry& e : entries) {
      const TextRow figures = figures_of(e), names = names_of(e, limit);
      const std::string reads = e.median_read() ? fmt::format(", {} read", reads_of(e)) : "";
      rows.push_back({name_of(e.work.deck, limit), shown_parameters(e.work.parameters),
                      figures[0] + " " + unit_of(e.work.figure) + reads, figures[1], figures[2],
                      figures[3], std::to_string(e.work.ranks), figures[4],
                      std::string(to_string(e.work.division)), e.why_not(), names[0], names[3],
                      names[4]});
    }
    return rows;
  };
  std::string text = fmt::format(
      "Not ranked, because a place needs {} official runs of one deck (docs/run-rules.md)\n{}",
      OfficialRules::runs, fitting_table(rows_within));
  for (const RankedEntry& e : entries)
    for (const std::string& reason : e.reasons)
      text += fmt::format("  {} of {} is unofficial: {}\n", printable(e.work.deck),
                          printable(archive_of(e)), printable(reason));
  return text;
}

constexpr std::array csv_columns{
    "place",  "deck",      "figure",         "value",         "ranks",      "per_rank",
    "class",  "division",  "organisation",   "system",        "processor",  "file",
    "lowest", "highest",   "runs",           "nodes",         "parameters", "tokens_per_step",
    "date",   "deck_hash", "why_not_ranked", "read_gib_per_s"};

TextRow csv_row(const RankedEntry& e) {
  const auto exact = [](double value) { return fmt::format("{}", value); };
  return {e.place > 0 ? std::to_string(e.place) : "",
          e.work.deck,
          e.work.figure,
          exact(e.median()),
          std::to_string(e.work.ranks),
          exact(e.per_rank()),
          e.official ? "official" : "unofficial",
          std::string(to_string(e.work.division)),
          e.organisation,
          e.system,
          e.processor,
          e.file,
          exact(e.values.front()),
          exact(e.values.back()),
          std::to_string(e.values.size()),
          std::to_string(e.nodes),
          std::to_string(e.work.parameters),
          std::to_string(e.work.tokens_per_step),
          e.date,
          join(e.deck_hashes, " "),
          e.why_not() + (e.reasons.empty() ? "" : ": " + join(e.reasons, "; ")),
          e.median_read() ? exact(*e.median_read()) : ""};
}

}  // namespace

std::string ranking_text(const Ranking& ranking) {
  if (ranking.ranked.empty() && ranking.unranked.empty()) return "no run is verified\n";
  return ranked_text(ranking.ranked) + unranked_text(ranking.unranked);
}

std::string ranking_csv(const Ranking& ranking) {
  std::string text =
      join(std::vector<std::string>(csv_columns.begin(), csv_columns.end()), ",") + "\n";
  for (const auto* entries : {&ranking.ranked, &ranking.unranked})
    for (const RankedEntry& e : *entries) {
      TextRow row = csv_row(e);
      for (std::string& cell : row) cell = csv_quoted(cell);
      text += join(row, ",") + "\n";
    }
  return text;
}

}  // namespace shardmark
