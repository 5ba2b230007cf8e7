// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <miniapp/report/html/text.hpp>
#include <miniapp/submission/ranking.hpp>

namespace shardmark {
namespace {

constexpr std::array columns{"place", "deck",     "figure",       "value",  "ranks",     "per_rank",
                             "class", "division", "organisation", "system", "processor", "file"};

// The cells of all rows; places start anew with each deck and figure.
std::vector<std::vector<std::string>> cells(const std::vector<Ranked>& runs) {
  std::vector<std::vector<std::string>> rows;
  int place = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const VerifiedRun& r = runs[i].run;
    const bool same =
        i > 0 && runs[i - 1].run.name == r.name && runs[i - 1].run.fom_name == r.fom_name;
    place = same ? place + 1 : 1;
    rows.push_back({std::to_string(place), r.name, r.fom_name, fmt::format("{:.6g}", r.fom),
                    std::to_string(r.ranks), fmt::format("{:.6g}", r.fom / std::max(1, r.ranks)),
                    r.official ? "official" : "unofficial",
                    std::string(to_string(r.division.division)), runs[i].organisation,
                    runs[i].system, runs[i].processor, runs[i].file});
  }
  return rows;
}

}  // namespace

void rank(std::vector<Ranked>& runs) {
  const auto key = [](const Ranked& r) {
    return std::tuple(r.run.name, r.run.fom_name, r.run.division.division, !r.run.official,
                      -r.run.fom);
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const Ranked& a, const Ranked& b) { return key(a) < key(b); });
}

std::string ranking_text(const std::vector<Ranked>& runs) {
  auto rows = cells(runs);
  rows.insert(rows.begin(), std::vector<std::string>(columns.begin(), columns.end()));
  std::array<std::size_t, columns.size()> width{};
  for (auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = printable(row[c]);
      width[c] = std::max(width[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) line += fmt::format("{:<{}}  ", row[c], width[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string ranking_csv(const std::vector<Ranked>& runs) {
  std::string text;
  for (std::size_t c = 0; c < columns.size(); ++c)
    text += fmt::format("{}{}", c > 0 ? "," : "", columns[c]);
  text += "\n";
  for (const auto& row : cells(runs)) {
    for (std::size_t c = 0; c < row.size(); ++c) text += (c > 0 ? "," : "") + csv_quoted(row[c]);
    text += "\n";
  }
  return text;
}

std::string ranking_html(const std::vector<Ranked>& runs) {
  html::Table table{
      .caption = {}, .head = {columns.begin(), columns.end()}, .rows = {}, .text_columns = 3};
  table.note_columns = 6;
  for (auto& row : cells(runs)) {
    for (std::string& cell : row) cell = html::escape(cell);
    table.rows.push_back(row);
  }
  return html::document(
      "ShardMark: results",
      "<main>\n<h1>ShardMark: results</h1>\n<p>Every row was verified: its plan was made again "
      "from "
      "its deck, and its figures were recomputed. Results of one deck and figure are ranked "
      "together; those of another division or class come after.</p>\n" +
          html::to_html(table) + "\n</main>\n");
}

}  // namespace shardmark
