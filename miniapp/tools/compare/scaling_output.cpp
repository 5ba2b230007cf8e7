// SPDX-License-Identifier: Apache-2.0
// Scaling series as text, as JSON (docs/scaling.md lists the keys), and on a page: speed-up against
// the ideal line, efficiency, the table and the notes.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/tools/compare/scaling.hpp>

namespace shardmark {

namespace {

constexpr int bar_width = 20;

// The part of the ideal as a bar, which ends at the ideal.
std::string efficiency_bar(const std::optional<double>& efficiency) {
  if (!efficiency) return {};
  const int full = static_cast<int>(std::lround(std::clamp(*efficiency, 0.0, 1.0) * bar_width));
  return "|" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(bar_width - full), '.') + "|";
}

const std::string no_figure = "–";

std::string count_or_none(std::int64_t number) {
  return number > 0 ? std::to_string(number) : no_figure;
}

std::string share_text(const std::optional<double>& part) {
  return part ? fmt::format("{:.1f} %", *part * 100) : no_figure;
}

/// A column of the table of a series.
struct ScalingColumn {
  bool shown = true;
  const char* name = "";
  std::string (*text)(const ScalingPoint&) = nullptr;
};

std::vector<ScalingColumn> columns_of(const ScalingSeries& series) {
  using P = const ScalingPoint&;
  const bool differ = series.models_differ;
  const bool repeated = std::ranges::any_of(series.points, [](P p) { return p.runs > 1; });
  const std::vector<ScalingColumn> all{
      {true, "ranks", [](P p) { return std::to_string(p.ranks); }},
      {true, "nodes", [](P p) { return count_or_none(p.nodes); }},
      {repeated, "runs", [](P p) { return std::to_string(p.runs); }},
      {differ, "layers", [](P p) { return count_or_none(p.layers); }},
      {differ, "parameters", [](P p) { return short_amount(p.parameters); }},
      {true, "tokens/s", [](P p) { return short_amount(p.tokens_per_s); }},
      {repeated, "lowest to highest",
       [](P p) { return short_amount(p.lowest) + " to " + short_amount(p.highest); }},
      {differ, "parameters x tokens/s", [](P p) { return short_amount(p.merit); }},
      {true, "per rank", [](P p) { return short_amount(p.merit_per_rank()); }},
      {true, "speed-up",
       [](P p) { return p.speedup ? fmt::format("{:.3g}", *p.speedup) : no_figure; }},
      {true, "ideal", [](P p) { return fmt::format("{:.4g}", p.ideal); }},
      {true, "efficiency", [](P p) { return share_text(p.efficiency); }},
      {true, "step p50", [](P p) { return p.step_p50_s ? duration(*p.step_p50_s) : no_figure; }},
      {true, "exposed", [](P p) { return share_text(p.exposed_share); }}};
  std::vector<ScalingColumn> shown;
  std::ranges::copy_if(all, std::back_inserter(shown),
                       [](const ScalingColumn& c) { return c.shown; });
  return shown;
}

// Why the figures are strong or weak scaling.
std::string scaling_sentence(const ScalingSeries& series) {
  const ScalingPoint& first = series.points.front();
  const bool grows = std::ranges::is_sorted(series.points, {}, &ScalingPoint::parameters);
  const std::string model = !series.models_differ ? "the model is the same"
                            : grows               ? "the model grows with the ranks"
                                                  : "yet the models differ";
  switch (series.kind) {
    case ScalingKind::strong:
      return fmt::format(
          "Strong scaling: all numbers of ranks share a batch of {:.0f} tokens per step, and {}.",
          first.tokens, model);
    case ScalingKind::weak:
      return fmt::format("Weak scaling: every rank has {:.6g} tokens per step, and {}.",
                         first.tokens / first.ranks, model);
    case ScalingKind::neither: break;
  }
  std::string tokens;
  for (const ScalingPoint& p : series.points)
    add_item(tokens, fmt::format("{:.0f} on {}", p.tokens, plural(p.ranks, "rank")));
  return fmt::format(
      "Neither strong nor weak scaling: the tokens per step ({}) are neither the same for all "
      "numbers of ranks nor the same for every rank, so there is no speed-up to give. Set "
      "train_batch_size for strong scaling, train_micro_batch_size_per_gpu and "
      "gradient_accumulation_steps for weak scaling.",
      tokens);
}

// The table of a series, the names of the columns first.
std::vector<std::vector<std::string>> scaling_rows(const ScalingSeries& series) {
  const std::vector<ScalingColumn> columns = columns_of(series);
  std::vector<std::vector<std::string>> rows(1 + series.points.size());
  for (const ScalingColumn& c : columns) {
    rows[0].emplace_back(c.name);
    for (std::size_t i = 0; i < series.points.size(); ++i)
      rows[i + 1].push_back(c.text(series.points[i]));
  }
  return rows;
}

std::string series_table(const ScalingSeries& series) {
  std::vector<std::string> lines = in_columns(scaling_rows(series), {.left = 0});
  std::string text;
  for (std::size_t r = 0; r < lines.size(); ++r) {
    if (r > 0) lines[r] += " " + efficiency_bar(series.points[r - 1].efficiency);
    text += lines[r].erase(lines[r].find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

using OrderedJson = nlohmann::ordered_json;

OrderedJson or_null(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson scaling_point_json(const ScalingPoint& p) {
  return {{"ranks", p.ranks},
          {"nodes", p.nodes > 0 ? OrderedJson(p.nodes) : OrderedJson(nullptr)},
          {"runs", p.runs},
          {"parameters", p.parameters > 0 ? OrderedJson(p.parameters) : OrderedJson(nullptr)},
          {"layers", p.layers > 0 ? OrderedJson(p.layers) : OrderedJson(nullptr)},
          {"tokens_per_step", p.tokens},
          {"tokens_per_s", p.tokens_per_s},
          {"tokens_per_s_lowest", p.lowest},
          {"tokens_per_s_highest", p.highest},
          {"merit", p.merit},
          {"merit_per_rank", p.merit_per_rank()},
          {"speedup", or_null(p.speedup)},
          {"ideal", p.ideal},
          {"efficiency", or_null(p.efficiency)},
          {"step_p50_s", or_null(p.step_p50_s)},
          {"exposed_communication_share", or_null(p.exposed_share)}};
}

using html::Curve;

constexpr double linear_span = 8;  // largest ratio of ranks on a linear axis
constexpr double headroom = 1.05;

// A chart of a value of each point over the ranks, with a mark at each number of ranks.
template<class Value>
html::Chart over_ranks(const ScalingSeries& s, const char* label, const char* unit,
                       const Value& value) {
  html::Chart chart{label, {.unit = "ranks"}, {.unit = unit}, 300};
  chart.x.log_base = s.points.back().ideal > linear_span ? 2 : 0;
  Curve curve{"series0", "", {}, Curve::Form::line_and_dots};
  for (const ScalingPoint& p : s.points) {
    const auto ranks = static_cast<double>(p.ranks);
    chart.x.ticks.push_back({ranks, std::to_string(p.ranks)});
    curve.data.push_back(
        {ranks, value(p),
         fmt::format("{}: speed-up {:.3g} of {:.4g}, efficiency {:.1f} %", plural(p.ranks, "rank"),
                     *p.speedup, p.ideal, *p.efficiency * 100)});
  }
  chart.x.low = s.points.front().ranks, chart.x.high = s.points.back().ranks;
  chart.curves = {std::move(curve)};
  return chart;
}

std::string speedup_chart(const ScalingSeries& s) {
  html::Chart chart = over_ranks(s, "speed-up over ranks", "times",
                                 [](const ScalingPoint& p) { return *p.speedup; });
  chart.y.log_base = chart.x.log_base;
  Curve ideal{"series5 predicted", "", {}};
  for (const ScalingPoint* p : {&s.points.front(), &s.points.back()})
    ideal.data.push_back({static_cast<double>(p->ranks), p->ideal});
  chart.curves.insert(chart.curves.begin(), std::move(ideal));
  return "<div><h3>Speed-up</h3>\n" + draw(chart, html::half_chart_width) + "</div>\n";
}

std::string efficiency_chart(const ScalingSeries& s) {
  html::Chart chart = over_ranks(s, "efficiency over ranks", "%",
                                 [](const ScalingPoint& p) { return 100 * *p.efficiency; });
  double most = 1;
  for (const ScalingPoint& p : s.points) most = std::max(most, *p.efficiency);
  chart.y.high = 100 * headroom * most;
  chart.levels = {{100, "series5 ideal", ""}};
  return "<div><h3>Efficiency</h3>\n" + draw(chart, html::half_chart_width) + "</div>\n";
}

bool has_speedups(const ScalingSeries& s) {
  return std::ranges::all_of(s.points,
                             [](const ScalingPoint& p) { return p.speedup && *p.speedup > 0; });
}

}  // namespace

std::string short_amount(double value) {
  static constexpr std::array<const char*, 6> units{"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  if (std::abs(value) >= 1e4)
    while (std::abs(value) >= 1e3 && unit + 1 < units.size()) value /= 1e3, ++unit;
  return fmt::format("{:.4g}{}", value, units[unit]);
}

std::string scaling_text(const std::vector<ScalingSeries>& list) {
  std::string text;
  for (const ScalingSeries& series : list) {
    text += fmt::format("Scaling{}{}\n  {}\n{}", series.name.empty() ? "" : " of ", series.name,
                        scaling_sentence(series), series_table(series));
    for (const std::string& note : series.notes) text += "  " + note + "\n";
    text += "\n";
  }
  return text;
}

OrderedJson scaling_json(const std::vector<ScalingSeries>& list) {
  OrderedJson json = OrderedJson::array();
  for (const ScalingSeries& series : list) {
    OrderedJson points = OrderedJson::array();
    for (const ScalingPoint& p : series.points) points.push_back(scaling_point_json(p));
    json.push_back({{"name", series.name},
                    {"predicted", series.predicted},
                    {"kind", to_string(series.kind)},
                    {"models_differ", series.models_differ},
                    {"merit", series.merit_name()},
                    {"reference_ranks", series.points.front().ranks},
                    {"sentence", scaling_sentence(series)},
                    {"points", std::move(points)},
                    {"notes", series.notes}});
  }
  return json;
}

std::string scaling_html(const std::vector<ScalingSeries>& list) {
  std::string page;
  for (const ScalingSeries& s : list) {
    page += fmt::format("<h2>Scaling{}{}</h2>\n<p>{}</p>\n", s.name.empty() ? "" : " of ",
                        html::escape(s.name), html::escape(scaling_sentence(s)));
    if (has_speedups(s))
      page += "<div class=\"pair\">\n" + speedup_chart(s) + efficiency_chart(s) + "</div>\n" +
              html::legend({{"curve series0", s.predicted ? "predicted" : "measured"},
                            {"curve series5 ideal", "ideal"}});
    page += html::text_table(scaling_rows(s), 0, "dense");
    page += html::list(s.notes);
  }
  return page;
}

}  // namespace shardmark
