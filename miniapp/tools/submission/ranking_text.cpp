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

// Names are cut to this many characters, so that a line of the terminal holds a row. The CSV and
// the page have them whole.
constexpr std::size_t longest_name = 17;

std::string name_of(const std::string& text) {
  const std::string safe = text.empty() ? "-" : printable(text);
  return safe.size() <= longest_name ? safe : safe.substr(0, longest_name - 3) + "...";
}

std::string text_table(std::vector<TextRow> rows) {
  std::vector<std::size_t> width(rows.front().size());
  for (const TextRow& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const TextRow& row : rows) {
    std::string line = "  ";
    for (std::size_t c = 0; c < row.size(); ++c) line += fmt::format("{:<{}}  ", row[c], width[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

TextRow figures_of(const RankedEntry& e) {
  return {four_digits(e.median()),      four_digits(e.values.front()),
          four_digits(e.values.back()), std::to_string(e.values.size()),
          std::to_string(e.nodes),      four_digits(e.per_rank())};
}

TextRow names_of(const RankedEntry& e) {
  return {name_of(e.organisation), name_of(e.system), name_of(e.processor), e.date,
          name_of(e.file.substr(e.file.rfind('/') + 1))};
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
    std::vector<TextRow> rows{joined(
        {"place", "median " + unit, "lowest", "highest", "runs", "nodes", "per rank"}, names_head)};
    for (; i < entries.size() && entries[i].work == work; ++i)
      rows.push_back(joined(joined({std::to_string(entries[i].place)}, figures_of(entries[i])),
                            names_of(entries[i])));
    text += fmt::format("{}: {}\n{}\n", printable(describe(work)), describe_size(work),
                        text_table(std::move(rows)));
  }
  return text;
}

std::string unranked_text(const std::vector<RankedEntry>& entries) {
  if (entries.empty()) return {};
  std::vector<TextRow> rows{{"deck", "parameters", "median", "lowest", "highest", "runs", "ranks",
                             "nodes", "division", "because", "organisation", "date", "archive"}};
  for (const RankedEntry& e : entries) {
    const TextRow figures = figures_of(e), names = names_of(e);
    rows.push_back({name_of(e.work.deck), shown_parameters(e.work.parameters),
                    figures[0] + " " + unit_of(e.work.figure), figures[1], figures[2], figures[3],
                    std::to_string(e.work.ranks), figures[4],
                    std::string(to_string(e.work.division)), e.why_not(), names[0], names[3],
                    names[4]});
  }
  std::string text = fmt::format(
      "Not ranked, because a place needs {} official runs of one deck (docs/run-rules.md)\n{}",
      OfficialRules::runs, text_table(std::move(rows)));
  for (const RankedEntry& e : entries)
    for (const std::string& reason : e.reasons)
      text += fmt::format("  {} of {} is unofficial: {}\n", printable(e.work.deck),
                          names_of(e).back(), printable(reason));
  return text;
}

constexpr std::array csv_columns{
    "place",  "deck",      "figure",        "value",  "ranks",      "per_rank",
    "class",  "division",  "organisation",  "system", "processor",  "file",
    "lowest", "highest",   "runs",          "nodes",  "parameters", "tokens_per_step",
    "date",   "deck_hash", "why_not_ranked"};

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
          e.why_not() + (e.reasons.empty() ? "" : ": " + join(e.reasons, "; "))};
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
