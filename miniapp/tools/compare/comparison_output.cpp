// SPDX-License-Identifier: Apache-2.0
// A comparison as the terminal, scripts and a page get it. The page has scaling series, the main
// figures as bars, all figures and differences.
#include <algorithm>
#include <array>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
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

// The figures that are drawn, if the subjects have them.
constexpr std::array drawn_figures{figure_name::tokens_per_s, figure_name::parameter_tokens_per_s,
                                   figure_name::step_p50, figure_name::exposed_share};

std::vector<std::string> heads(const Comparison& c) {
  std::vector<std::string> head{""};
  for (const Subject& s : c.subjects) head.push_back(html::breakable(s.label));
  return head;
}

std::string figures_table(const Comparison& c) {
  html::Table table{"Figures, with the difference to the first", heads(c), {}};
  for (const ComparedRow& row : c.figures) {
    std::vector<std::string> cells{html::breakable(row.name)};
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      cells.push_back(html::escape(row.cells[i]) +
                      (row.relations[i].empty() ? ""
                                                : fmt::format("<br/><span class=\"soft\">{}</span>",
                                                              html::escape(row.relations[i]))));
    table.rows.push_back(std::move(cells));
  }
  return to_html(table);
}

std::string differences_table(const Comparison& c, const std::string& caption,
                              const std::vector<ComparedRow>& rows) {
  if (rows.empty()) return {};
  html::Table table{caption, heads(c), {}, 1 + c.subjects.size()};
  for (const ComparedRow& row : rows) {
    std::vector<std::string> cells{html::breakable(row.name)};
    for (const std::string& cell : row.cells) cells.push_back(html::breakable(cell));
    table.rows.push_back(std::move(cells));
  }
  return to_html(table);
}

// One main figure of all subjects as bars from 0.
std::string bars(const Comparison& c, const ComparedRow& row) {
  double most = 0;
  for (const Subject& s : c.subjects)
    if (s.figures.contains(row.figure)) most = std::max(most, s.figures.at(row.figure));
  if (most <= 0) return {};
  html::Table table{"", {}, {}, 1, 1, "bars"};
  for (std::size_t i = 0; i < c.subjects.size(); ++i) {
    const auto found = c.subjects[i].figures.find(row.figure);
    const double value = found == c.subjects[i].figures.end() ? 0 : found->second;
    table.rows.push_back({html::breakable(c.subjects[i].label),
                          row.cells[i].empty() ? "–" : html::escape(row.cells[i]),
                          html::bar(value, most, c.subjects[i].predicted ? "series5" : "series0")});
  }
  return html::titled(row.name, "", to_html(table));
}

// Tokens per second of models that differ would invite the comparison that they do not allow; for
// equal models the product with the parameters says nothing more.
std::string main_figures(const Comparison& c) {
  const bool models_differ = std::ranges::any_of(
      c.subjects, [&](const Subject& s) { return s.parameters != c.subjects.front().parameters; });
  const std::string left_out =
      models_differ ? figure_name::tokens_per_s : figure_name::parameter_tokens_per_s;
  std::string text;
  for (const char* name : drawn_figures) {
    if (name == left_out) continue;
    for (const ComparedRow& row : c.figures)
      if (row.figure == name) text += bars(c, row);
  }
  return text;
}

}  // namespace

std::string Comparison::verdict() const {
  if (!objections.empty()) return "Before comparing, note:";
  const bool predicted = std::ranges::all_of(subjects, &Subject::predicted);
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

std::string comparison_html(const Comparison& c) {
  return html::document(
      "ShardMark: comparison",
      "<main><h1>Comparison</h1>\n<p>" + html::escape(c.verdict()) + "</p>\n" +
          html::list(c.objections) + scaling_html(c.scaling) + "<h2>Side by side</h2>\n" +
          main_figures(c) + figures_table(c) +
          differences_table(c, "What differs in the deck", c.deck) +
          differences_table(c, "What differs in versions, placement and environment",
                            c.environment) +
          "</main>\n");
}

}  // namespace shardmark
