// SPDX-License-Identifier: Apache-2.0
// A comparison as the terminal and scripts get it.
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <miniapp/tools/compare/comparison.hpp>

namespace shardmark {
namespace {

std::string cell_text(const ComparedRow& row, std::size_t i) {
  if (row.cells[i].empty()) return "–";
  if (i >= row.relations.size() || row.relations[i].empty()) return row.cells[i];
  return row.cells[i] + " (" + row.relations[i] + ")";
}

std::string text_rows(const std::vector<ComparedRow>& rows, std::size_t name_width,
                      const std::vector<std::size_t>& widths) {
  std::string text;
  for (const ComparedRow& row : rows) {
    text += fmt::format("{:<{}}", row.name, name_width);
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      text += fmt::format("  {:>{}}", cell_text(row, i), widths[i]);
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json rows_json(const std::vector<ComparedRow>& rows) {
  nlohmann::ordered_json o = nlohmann::ordered_json::object();
  for (const ComparedRow& row : rows) o[row.name] = row.cells;
  return o;
}

}  // namespace

std::string Comparison::verdict() const {
  if (!objections.empty()) return "Before comparing, note:";
  const bool predicted =
      std::all_of(subjects.begin(), subjects.end(), [](const Subject& s) { return s.predicted; });
  return fmt::format("They may be compared{}: the same work{}.",
                     same_ranks ? "" : " as scaling series",
                     predicted ? ", all predicted" : ", all VALID and official");
}

std::string comparison_text(const Comparison& c) {
  std::size_t name_width = 0;
  std::vector<std::size_t> widths;
  for (const Subject& s : c.subjects) widths.push_back(s.label.size());
  for (const auto* rows : {&c.figures, &c.deck, &c.environment})
    for (const ComparedRow& row : *rows) {
      name_width = std::max(name_width, row.name.size());
      for (std::size_t i = 0; i < row.cells.size(); ++i)
        widths[i] = std::max(widths[i], cell_text(row, i).size());
    }
  ComparedRow head{"", {}};
  for (const Subject& s : c.subjects) head.cells.push_back(s.label);
  std::string text = scaling_text(c.scaling);
  text += text_rows({head}, name_width, widths) + text_rows(c.figures, name_width, widths);
  if (!c.deck.empty())
    text += "\nwhat differs in the deck\n" + text_rows(c.deck, name_width, widths);
  if (!c.environment.empty())
    text += "\nwhat differs in versions, placement and environment\n" +
            text_rows(c.environment, name_width, widths);
  text += "\n" + c.verdict() + "\n";
  for (const std::string& o : c.objections) text += "  " + o + "\n";
  return text;
}

nlohmann::ordered_json comparison_json(const Comparison& c) {
  nlohmann::ordered_json file{{"subjects", nlohmann::ordered_json::array()}};
  for (const Subject& s : c.subjects)
    file["subjects"].push_back({{"label", s.label},
                                {"predicted", s.predicted},
                                {"result", s.result},
                                {"class", s.run_class},
                                {"world", s.world},
                                {"figures", s.figures},
                                {"deck_hash", s.deck_hash},
                                {"plan_hash", s.plan_hash},
                                {"state_hash", s.state_hash}});
  file["deck_differences"] = rows_json(c.deck);
  file["environment_differences"] = rows_json(c.environment);
  // Figures side by side; whether series may be compared is up to the objections alone.
  file["comparable"] = c.objections.empty() && c.same_ranks;
  file["objections"] = c.objections;
  file["scaling"] = scaling_json(c.scaling);
  return file;
}

}  // namespace shardmark
