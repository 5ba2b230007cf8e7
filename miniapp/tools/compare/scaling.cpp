// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/core.h>

#include <core/percentile.hpp>
#include <core/text.hpp>
#include <miniapp/tools/compare/scaling.hpp>

namespace shardmark {
namespace {

using Members = std::vector<std::size_t>;

// Keys that do not say what kind of work a step is: names, files, budgets, the length of the run,
// and the batch, by which strong and weak scaling differ. A key stands for those below it.
constexpr std::array beside_the_work{"name",
                                     "data.path",
                                     "run.steps",
                                     "run.warmup",
                                     "run.seed",
                                     "run.time_limit_s",
                                     "expect",
                                     "checkpoint",
                                     "trace",
                                     "comm.timeout_s",
                                     "deepspeed.train_batch_size",
                                     "deepspeed.train_micro_batch_size_per_gpu",
                                     "deepspeed.gradient_accumulation_steps",
                                     "deepspeed.steps_per_print",
                                     "deepspeed.wall_clock_breakdown",
                                     "deepspeed.comms_logger"};
// Keys that only say how large the model is.
constexpr std::array size_of_model{"model.layers", "model.hidden",   "model.heads",
                                   "model.ffn",    "model.kv_heads", "model.fit"};

template<class Keys>
bool is_below(const std::string& key, const Keys& keys) {
  return std::ranges::any_of(keys, [&](std::string_view k) {
    return key == k || (key.starts_with(k) && key[k.size()] == '.');
  });
}

std::string text_of(const Subject& s, const char* key) {
  const auto found = s.deck.find(key);
  return found == s.deck.end() ? std::string() : found->second;
}

// Equal for subjects that did the same kind of work.
std::string work_of(const Subject& s, bool any_size) {
  std::string work = s.predicted ? "predicted on " + s.environment.at("machine") : "measured";
  if (!s.tells_deck()) work += " " + text_of(s, "name");
  const bool fitted = s.deck.contains("model.fit");  // then budgets decide about the model
  for (const auto& [key, value] : s.deck)
    if (!is_below(key, beside_the_work) && !(any_size && is_below(key, size_of_model)) &&
        (fitted || !key.starts_with("memory.")))
      work += "\n" + key + " " + value;
  return work;
}

double figure_of(const Subject& s, const char* name) {
  const auto found = s.figures.find(name);
  return found == s.figures.end() ? 0 : found->second;
}

// Groups of subjects with at least two numbers of ranks.
std::vector<Members> groups_of(const std::vector<Subject>& subjects, bool any_size) {
  std::map<std::string, Members> by_work;
  std::vector<std::string> order;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (subjects[i].world <= 0 || figure_of(subjects[i], figure_name::tokens_per_s) <= 0) continue;
    const std::string work = work_of(subjects[i], any_size);
    if (!by_work.contains(work)) order.push_back(work);
    by_work[work].push_back(i);
  }
  std::vector<Members> groups;
  for (const std::string& work : order) {
    std::set<int> worlds;
    for (const std::size_t i : by_work[work]) worlds.insert(subjects[i].world);
    if (worlds.size() > 1) groups.push_back(by_work[work]);
  }
  return groups;
}

// The runs of one number of ranks.
using Runs = std::vector<const Subject*>;
using ByRanks = std::map<int, Runs>;

// A run without the figure counts as 0.
double median_of(const Runs& runs, const char* name) {
  std::vector<double> values;
  for (const Subject* s : runs) values.push_back(figure_of(*s, name));
  return median(std::move(values));
}

// Nothing if a run is without the figure.
std::optional<double> median_of_all(const Runs& runs, const char* name) {
  const auto has = [&](const Subject* s) { return s->figures.contains(name); };
  return std::ranges::all_of(runs, has) ? std::optional(median_of(runs, name)) : std::nullopt;
}

bool differ(const Runs& runs, double Subject::*member) {
  return std::ranges::any_of(runs,
                             [&](const Subject* s) { return s->*member != runs.front()->*member; });
}

ScalingPoint point_of(const Runs& runs) {
  const auto rate = [](const Subject* s) { return figure_of(*s, figure_name::tokens_per_s); };
  const auto [low, high] = std::ranges::minmax_element(runs, {}, rate);
  const Subject& first = *runs.front();
  return {.ranks = first.world,
          .nodes = first.nodes,
          .runs = runs.size(),
          .parameters = first.parameters,
          .layers = first.layers,
          .tokens = first.tokens,
          .tokens_per_s = median_of(runs, figure_name::tokens_per_s),
          .lowest = rate(*low),
          .highest = rate(*high),
          .step_p50_s = median_of_all(runs, figure_name::step_p50),
          .exposed_share = median_of_all(runs, figure_name::exposed_share)};
}

ScalingKind kind_of(const std::vector<ScalingPoint>& points) {
  const ScalingPoint& first = points.front();
  const auto shares_all = [&](const ScalingPoint& p) { return p.tokens == first.tokens; };
  const auto has_its_own = [&](const ScalingPoint& p) {  // integers, so that no division rounds
    return p.tokens * first.ranks == first.tokens * p.ranks;
  };
  if (first.tokens <= 0) return ScalingKind::neither;
  if (std::ranges::all_of(points, shares_all)) return ScalingKind::strong;
  return std::ranges::all_of(points, has_its_own) ? ScalingKind::weak : ScalingKind::neither;
}

void add_speedups(ScalingSeries& series, const ByRanks& by_ranks) {
  for (ScalingPoint& p : series.points)
    p.merit = median_of(by_ranks.at(p.ranks), series.merit_name());
  const ScalingPoint& first = series.points.front();
  for (ScalingPoint& p : series.points) {
    p.ideal = static_cast<double>(p.ranks) / first.ranks;
    if (series.kind == ScalingKind::neither || first.merit <= 0) continue;
    p.speedup = p.merit / first.merit;
    p.efficiency = *p.speedup / p.ideal;
  }
}

std::string size_text(const ScalingPoint& p) {
  const std::string elements = fmt::format("{:.4g} million parameters", p.parameters * 1e-6);
  return p.layers > 0 ? fmt::format("{} with {}", plural(p.layers, "layer"), elements) : elements;
}

void add_notes(ScalingSeries& series, const ByRanks& by_ranks) {
  if (series.models_differ) {
    const auto [smallest, largest] =
        std::ranges::minmax_element(series.points, {}, &ScalingPoint::parameters);
    series.notes.push_back(fmt::format(
        "the models differ, from {} on {} to {} on {}: their tokens per second cannot be compared, "
        "so speed-up and efficiency are those of tokens per second times parameters",
        size_text(*smallest), plural(smallest->ranks, "rank"), size_text(*largest),
        plural(largest->ranks, "rank")));
  }
  if (series.points.front().parameters <= 0)
    series.notes.emplace_back(
        "the files do not tell the size of the model: make the predictions again with this "
        "version to have models that differ noticed");
  for (const auto& [ranks, group] : by_ranks) {
    if (differ(group, &Subject::parameters) || differ(group, &Subject::tokens))
      series.notes.push_back(fmt::format(
          "the runs on {} differ in model or batch, so their median mixes different work",
          plural(ranks, "rank")));
    std::set<std::string> warnings;
    for (const Subject* s : group) warnings.insert(s->warnings.begin(), s->warnings.end());
    for (const std::string& w : warnings)
      series.notes.push_back(fmt::format("{}: {}", plural(ranks, "rank"), w));
  }
  constexpr double noticeable = 1.05;
  for (const ScalingPoint& p : series.points)
    if (p.efficiency.value_or(0) > noticeable)
      series.notes.push_back(
          fmt::format("more than the ideal on {}: either {} was disturbed or its memory was the "
                      "slower one; give "
                      "several runs of each, whose medians count",
                      plural(p.ranks, "rank"), plural(series.points.front().ranks, "rank")));
  if (series.points.front().ranks > 1)
    series.notes.push_back(fmt::format(
        "efficiencies are relative to {}, the fewest here, whose own losses they do not show",
        plural(series.points.front().ranks, "rank")));
}

ScalingSeries series_of(const std::vector<Subject>& subjects, const Members& members) {
  ScalingSeries series;
  series.subjects = members;
  ByRanks by_ranks;
  for (const std::size_t i : members) {
    const Subject& s = subjects[i];
    if (s.predicted || s.result == "VALID")
      by_ranks[s.world].push_back(&s);
    else
      series.notes.push_back(fmt::format("{} is left out: it is {}", s.label,
                                         s.result.empty() ? "of an unknown result" : s.result));
  }
  const Subject& any = subjects[members.front()];
  series.predicted = any.predicted;
  series.name = text_of(any, "name");
  if (any.predicted) series.name += ", predicted on " + any.environment.at("machine");
  for (const auto& [ranks, group] : by_ranks) series.points.push_back(point_of(group));
  if (series.points.size() < 2) return series;
  series.kind = kind_of(series.points);
  for (const ScalingPoint& p : series.points)
    series.models_differ |= p.parameters != series.points.front().parameters;
  add_speedups(series, by_ranks);
  add_notes(series, by_ranks);
  return series;
}

}  // namespace

const char* ScalingSeries::merit_name() const {
  return models_differ ? figure_name::parameter_tokens_per_s : figure_name::tokens_per_s;
}

bool tells_work(const std::string& key) {
  return !is_below(key, beside_the_work) && !key.starts_with("memory.");
}

std::vector<ScalingSeries> scaling_of(const std::vector<Subject>& subjects) {
  std::vector<Members> groups = groups_of(subjects, false);
  if (groups.empty()) groups = groups_of(subjects, true);
  std::vector<ScalingSeries> list;
  for (const Members& members : groups)
    if (ScalingSeries series = series_of(subjects, members); series.points.size() > 1)
      list.push_back(std::move(series));
  return list;
}

}  // namespace shardmark
