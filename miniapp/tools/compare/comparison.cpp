// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/compare/comparison.hpp>

namespace shardmark {
namespace {

using Values = std::map<std::string, std::string>;

// The order in which people look for figures; those that are not listed follow by name.
constexpr std::array<std::string_view, 12> first_figures{figure_name::tokens_per_s,
                                                         figure_name::parameters,
                                                         figure_name::parameter_tokens_per_s,
                                                         figure_name::step_p50,
                                                         "step p99, s",
                                                         "forward, s",
                                                         "backward, s",
                                                         "optimizer, s",
                                                         "copies, s",
                                                         figure_name::exposed,
                                                         figure_name::exposed_share,
                                                         "hidden communication, s"};

constexpr std::string_view gb_per_s = " GB/s";

// In the unit that leaves few digits: "4.41 GB/s", "69.5 kB/s".
std::string bandwidth(double gb) {
  constexpr std::array<const char*, 4> smaller{"GB/s", "MB/s", "kB/s", "B/s"};
  std::size_t unit = 0;
  while (gb > 0 && gb < 1 && unit + 1 < smaller.size()) gb *= 1e3, ++unit;
  return fmt::format("{} {}", four_digits(gb), smaller[unit]);
}

// What a figure is called beside its value, which has the unit.
std::string label_of(const std::string& name) {
  if (name.ends_with(gb_per_s))
    return name.substr(0, name.size() - gb_per_s.size()) + " bus bandwidth";
  for (const std::string_view unit : {", s", ", bytes"})
    if (name.ends_with(unit)) return name.substr(0, name.size() - unit.size());
  return name + (name.ends_with(" calls") ? ", whole run" : "");
}

std::string figure_text(const std::string& name, double value) {
  if (name.ends_with(", bytes")) return human_bytes(static_cast<std::int64_t>(value));
  if (name.ends_with(", s")) return duration(value);
  if (name.ends_with(gb_per_s)) return bandwidth(value);
  if (name == figure_name::exposed_share) return fmt::format("{:.1f} %", value * 100);
  constexpr double readable = 1e5;
  if (name == figure_name::parameters || name == figure_name::parameter_tokens_per_s ||
      value >= readable)
    return short_amount(value);
  return fmt::format("{:.5g}", value);
}

// How a figure relates to that of the first subject; empty where a relation would mislead: tokens
// of a model of another size cost another amount of work, and parts of a step are percentages
// already.
std::string relation_to_first(const std::string& name, const Subject& first, const Subject& s) {
  if (name == figure_name::tokens_per_s && first.parameters != s.parameters) return {};
  const auto reference = first.figures.find(name);
  if (name == figure_name::exposed_share || reference == first.figures.end()) return {};
  return relation(s.figures.at(name), reference->second);
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
  ComparedRow row{label_of(name), {}, {}, name};
  for (const Subject& s : subjects) {
    const auto found = s.figures.find(name);
    const bool has = found != s.figures.end();
    row.cells.push_back(has ? figure_text(name, found->second) : std::string());
    row.relations.push_back(has && &s != &subjects.front()
                                ? relation_to_first(name, subjects.front(), s)
                                : std::string());
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
    const bool same = std::ranges::all_of(
        subjects, [&](const Subject& s) { return i < s.label.size() && s.label[i] == first[i]; });
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

template<class T>
bool differ(const std::vector<Subject>& subjects, T Subject::*member) {
  return std::ranges::any_of(
      subjects, [&](const Subject& s) { return s.*member != subjects.front().*member; });
}

/// Collects what prevents that the subjects are compared.
class Objections {
 public:
  explicit Objections(const Comparison& c) : c_(c) {
    for (const ScalingSeries& series : c.scaling)
      in_series_.insert(series.subjects.begin(), series.subjects.end());
  }

  std::vector<std::string> all() {
    results();
    ranks();
    work();
    predictions();
    for (const char* key : {"processor", "machine"})
      for (const ComparedRow& row : c_.environment)
        if (row.name == key) list_.push_back(fmt::format("the {} differs", key));
    return std::move(list_);
  }

 private:
  bool one_series() const {
    return c_.scaling.size() == 1 && in_series_.size() == c_.subjects.size();
  }

  void results() {
    std::vector<std::string> unofficial;
    for (const Subject& s : c_.subjects) {
      if (s.predicted) continue;
      if (s.result != "VALID")
        list_.push_back(fmt::format("{} is {}: its figures prove nothing", s.label,
                                    s.result.empty() ? "of an unknown result" : s.result));
      if (s.run_class != "official") unofficial.push_back(s.label);
    }
    if (!unofficial.empty())
      list_.push_back(join(unofficial, ", ") +
                      (unofficial.size() == 1 ? " is unofficial" : " are unofficial"));
  }

  // Other numbers of ranks are what a scaling series is about.
  void ranks() {
    if (c_.same_ranks) return;
    if (!c_.scaling.empty()) {
      for (std::size_t i = 0; i < c_.subjects.size(); ++i)
        if (!in_series_.contains(i))
          list_.push_back(
              c_.subjects[i].label +
              " is in no scaling series: nothing else here did the same work on another "
              "number of ranks");
      return;
    }
    std::set<std::string> keys;
    for (const ComparedRow& row : c_.deck)
      if (tells_work(row.name)) keys.insert(row.name);
    list_.push_back(
        "the numbers of ranks differ" +
        (keys.empty() ? ""
                      : ", and no two of them did the same work: " + join(keys, ", ") + " differ"));
  }

  void work() {
    if (one_series()) return;  // its notes and its sentence say what differs
    std::set<std::string> keys;
    for (const ComparedRow& row : c_.deck)
      if (row.name.starts_with("model.") || row.name == "run.compute" ||
          row.name == "deepspeed.train_batch_size")
        keys.insert(row.name);
    if (!keys.empty() && all_told_)
      list_.push_back("they did not do the same work: " + join(keys, ", ") + " differ");
    if (differ(c_.subjects, &Subject::parameters))
      list_.emplace_back(
          "their models have different sizes, so their tokens per second cannot be compared; "
          "tokens per second times parameters can");
  }

  void predictions() {
    if (!differ(c_.subjects, &Subject::predicted)) return;
    list_.push_back(
        std::string("predictions stand beside measurements") +
        (all_told_ ? "" : ", and a prediction of an older program does not tell its deck"));
  }

  const Comparison& c_;
  const bool all_told_ = std::ranges::all_of(c_.subjects, &Subject::tells_deck);
  std::set<std::size_t> in_series_;
  std::vector<std::string> list_;
};

}  // namespace

Comparison compare(std::vector<Subject> subjects) {
  Comparison c;
  shorten_labels(subjects);
  c.subjects = std::move(subjects);
  for (const std::string& name : names_of(c.subjects))
    c.figures.push_back(figure_row(c.subjects, name));
  c.deck = differences(c.subjects, &Subject::deck);
  c.environment = differences(c.subjects, &Subject::environment);
  c.scaling = scaling_of(c.subjects);
  c.same_ranks = !differ(c.subjects, &Subject::world);
  c.objections = Objections(c).all();
  return c;
}

}  // namespace shardmark
