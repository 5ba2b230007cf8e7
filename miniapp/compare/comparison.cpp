// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/compare/comparison.hpp>
#include <miniapp/report/html/text.hpp>

namespace shardmark {
namespace {

using Values = std::map<std::string, std::string>;

// The order in which people look for figures; those that are not listed follow by name.
constexpr std::array<std::string_view, 9> first_figures{"tokens_per_s",
                                                        "step p50, s",
                                                        "step p99, s",
                                                        "forward, s",
                                                        "backward, s",
                                                        "optimizer, s",
                                                        "copies, s",
                                                        "exposed communication, s",
                                                        "hidden communication, s"};

std::string figure_text(const std::string& name, double value) {
  if (name.ends_with(", bytes")) return human_bytes(static_cast<std::int64_t>(value));
  if (name.ends_with(", s")) return duration(value);
  return fmt::format("{:.5g}", value);
}

std::vector<std::string> names_of(const std::vector<Subject>& subjects) {
  std::set<std::string> all;
  for (const Subject& s : subjects)
    for (const auto& [name, value] : s.figures) all.insert(name);
  std::vector<std::string> names;
  for (const std::string_view name : first_figures)
    if (all.erase(std::string(name)) > 0) names.emplace_back(name);
  names.insert(names.end(), all.begin(), all.end());
  return names;
}

ComparedRow figure_row(const std::vector<Subject>& subjects, const std::string& name) {
  ComparedRow row{name, {}};
  const auto reference = subjects.front().figures.find(name);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const auto found = subjects[i].figures.find(name);
    if (found == subjects[i].figures.end()) {
      row.cells.emplace_back();
      continue;
    }
    std::string text = figure_text(name, found->second);
    if (i > 0 && reference != subjects.front().figures.end() && reference->second != 0)
      text += fmt::format(" ({:+.1f} %)", 100 * (found->second / reference->second - 1));
    row.cells.push_back(std::move(text));
  }
  return row;
}

// Keys whose values are not the same everywhere.
std::vector<ComparedRow> differences(const std::vector<Subject>& subjects,
                                     Values Subject::*values) {
  std::set<std::string> keys;
  for (const Subject& s : subjects)
    for (const auto& [key, value] : s.*values) keys.insert(key);
  std::vector<ComparedRow> rows;
  for (const std::string& key : keys) {
    ComparedRow row{key, {}};
    std::set<std::string> distinct;
    for (const Subject& s : subjects) {
      const auto found = (s.*values).find(key);
      row.cells.push_back(found == (s.*values).end() ? std::string() : found->second);
      distinct.insert(row.cells.back());
    }
    if (distinct.size() > 1) rows.push_back(std::move(row));
  }
  return rows;
}

void shorten_labels(std::vector<Subject>& subjects) {
  std::size_t common = 0;
  const std::string& first = subjects.front().label;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool same = std::all_of(subjects.begin(), subjects.end(), [&](const Subject& s) {
      return i < s.label.size() && s.label[i] == first[i];
    });
    if (!same) break;
    if (first[i] == '/') common = i + 1;
  }
  std::map<std::string, int> seen;
  for (Subject& s : subjects) {
    s.label = s.label.substr(common);
    if (s.label.ends_with("/report.json")) s.label.resize(s.label.size() - 12);
    if (s.predicted) s.label += fmt::format(" predicted, {}", plural(s.world, "rank"));
  }
}

std::vector<std::string> objections_to(const Comparison& c) {
  std::vector<std::string> list;
  const auto differ = [&](auto member) {
    return std::any_of(c.subjects.begin(), c.subjects.end(),
                       [&](const Subject& s) { return s.*member != c.subjects.front().*member; });
  };
  for (const Subject& s : c.subjects) {
    if (!s.predicted && s.result != "VALID")
      list.push_back(fmt::format("{} is {}: its figures prove nothing", s.label,
                                 s.result.empty() ? "of an unknown result" : s.result));
    if (!s.predicted && s.run_class != "official") list.push_back(s.label + " is unofficial");
  }
  if (differ(&Subject::world)) list.emplace_back("the numbers of ranks differ");
  std::set<std::string> models;
  for (const ComparedRow& row : c.deck)
    if (row.name.starts_with("model.") || row.name == "run.compute" ||
        row.name == "deepspeed.train_batch_size")
      models.insert(row.name);
  const bool any_predicted = std::any_of(c.subjects.begin(), c.subjects.end(),
                                         [](const Subject& s) { return s.predicted; });
  if (!models.empty() && !any_predicted)
    list.push_back("they did not do the same work: " + join(models, ", ") + " differ");
  if (any_predicted && differ(&Subject::predicted))
    list.emplace_back(
        "predictions stand beside measurements, and a prediction does not tell its deck");
  for (const char* key : {"processor", "machine"})
    for (const ComparedRow& row : c.environment)
      if (row.name == key) list.push_back(fmt::format("the {} differs", key));
  return list;
}

std::string text_rows(const std::vector<ComparedRow>& rows, std::size_t name_width,
                      const std::vector<std::size_t>& widths) {
  std::string text;
  for (const ComparedRow& row : rows) {
    text += fmt::format("{:<{}}", row.name, name_width);
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      text += fmt::format("  {:>{}}", row.cells[i].empty() ? "–" : row.cells[i], widths[i]);
    text += '\n';
  }
  return text;
}

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

nlohmann::ordered_json rows_json(const std::vector<ComparedRow>& rows) {
  nlohmann::ordered_json o = nlohmann::ordered_json::object();
  for (const ComparedRow& row : rows) o[row.name] = row.cells;
  return o;
}

}  // namespace

Comparison compare(std::vector<Subject> subjects) {
  Comparison c;
  shorten_labels(subjects);
  c.subjects = std::move(subjects);
  for (const std::string& name : names_of(c.subjects))
    c.figures.push_back(figure_row(c.subjects, name));
  c.deck = differences(c.subjects, &Subject::deck);
  c.environment = differences(c.subjects, &Subject::environment);
  c.objections = objections_to(c);
  return c;
}

std::string comparison_text(const Comparison& c) {
  std::size_t name_width = 0;
  std::vector<std::size_t> widths;
  for (const Subject& s : c.subjects) widths.push_back(s.label.size());
  for (const auto* rows : {&c.figures, &c.deck, &c.environment})
    for (const ComparedRow& row : *rows) {
      name_width = std::max(name_width, row.name.size());
      for (std::size_t i = 0; i < row.cells.size(); ++i)
        widths[i] = std::max(widths[i], row.cells[i].size());
    }
  ComparedRow head{"", {}};
  for (const Subject& s : c.subjects) head.cells.push_back(s.label);
  std::string text =
      text_rows({head}, name_width, widths) + text_rows(c.figures, name_width, widths);
  if (!c.deck.empty())
    text += "\nwhat differs in the deck\n" + text_rows(c.deck, name_width, widths);
  if (!c.environment.empty())
    text += "\nwhat differs in versions, placement and environment\n" +
            text_rows(c.environment, name_width, widths);
  text += c.objections.empty() ? "\nThey may be compared: the same work, all VALID and official.\n"
                               : "\nBefore comparing, note:\n";
  for (const std::string& o : c.objections) text += "  " + o + "\n";
  return text;
}

std::string comparison_html(const Comparison& c) {
  std::string notes;
  for (const std::string& o : c.objections) notes += "<li>" + html::escape(o) + "</li>\n";
  return html::document(
      "ShardMark: comparison",
      "<main><h1>Comparison</h1>\n" +
          (notes.empty() ? "<p>They may be compared: the same work, all VALID and official.</p>"
                         : "<p>Before comparing, note:</p><ul>" + notes + "</ul>") +
          html_table(c, "Figures, with the difference to the first", c.figures) +
          html_table(c, "What differs in the deck", c.deck) +
          html_table(c, "What differs in versions, placement and environment", c.environment) +
          "</main>\n");
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
  file["comparable"] = c.objections.empty();
  file["objections"] = c.objections;
  return file;
}

}  // namespace shardmark
