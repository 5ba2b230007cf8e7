// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/tools/sweep/html/sweep_dims.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {
namespace {

using namespace html;

double own_s(const SweepPoint& p) {
  return p.run ? p.run->own() : NAN;
}
double exposed_s(const SweepPoint& p) {
  return p.run ? p.run->exposed : NAN;
}
double step_s(const SweepPoint& p) {
  return own_s(p) + exposed_s(p);
}
double predicted_s(const SweepPoint& p) {
  return p.predicted ? p.predicted->step_s : NAN;
}
double measured_s(const SweepPoint& p) {
  return p.run ? p.run->step_p50_s : NAN;
}

// Figures whose unit depends on the largest value.
double largest(const Sweep& sweep, const SweepFigure::Of& of) {
  double most = 0;
  for (const SweepPoint& p : sweep.points)
    if (const double v = of(p); std::isfinite(v)) most = std::max(most, v);
  return most;
}

// The budget of a tier, if it is the same wherever there is one.
std::vector<Level> budget_of(const Sweep& sweep, Tier tier, double unit) {
  std::optional<std::int64_t> one;
  for (const SweepPoint& p : sweep.points) {
    if (!p.plan || !p.plan->budget[tier]) continue;
    if (one && one != p.plan->budget[tier]) return {};
    one = p.plan->budget[tier];
  }
  if (!one) return {};
  return {
      {static_cast<double>(*one) / unit, "limit", fmt::format("budget: {}", human_bytes(*one))}};
}

SweepFigure memory_figure(const Sweep& sweep, Tier tier) {
  const auto bytes = [tier](const SweepPoint& p) {
    if (!p.plan) return double{NAN};
    const CategoryBytes& at = p.plan->at_peak[tier];
    return static_cast<double>(std::accumulate(at.begin(), at.end(), std::int64_t{0}));
  };
  const ByteUnit unit = byte_unit(largest(sweep, bytes));
  return {
      fmt::format("Memory of the {}: live peak of rank 0", to_string(tier)),
      unit.name,
      "Predicted to the byte; runs that end VALID confirm it.",
      [=](const SweepPoint& p) { return bytes(p) / unit.bytes; },
      {},
      [=](const SweepPoint& p) { return category_parts(p.plan->at_peak[tier], unit.bytes, ""); },
      budget_of(sweep, tier, unit.bytes),
      static_cast<double>(unit.bytes)};
}

// The tiers that any point uses.
std::vector<SweepFigure> memory_figures(const Sweep& sweep) {
  std::vector<SweepFigure> figures;
  for (const Tier t : all_values<Tier>)
    if (SweepFigure f = memory_figure(sweep, t); largest(sweep, f.of) > 0)
      figures.push_back(std::move(f));
  return figures;
}

SweepFigure time_figure(const Sweep& sweep, const char* title, double (*of)(const SweepPoint&),
                        const char* note, double (*predicted)(const SweepPoint&) = nullptr) {
  const bool seconds = std::max(largest(sweep, step_s), largest(sweep, predicted_s)) >= 2;
  const double factor = seconds ? 1 : 1e3;
  SweepFigure figure{title, seconds ? "s" : "ms", note,
                     [=](const SweepPoint& p) { return of(p) * factor; }};
  if (predicted != nullptr)
    figure.predicted = [=](const SweepPoint& p) { return predicted(p) * factor; };
  return figure;
}

// What is drawn over each dimension, in order.
std::vector<SweepFigure> figures_of(const Sweep& sweep, bool numbers) {
  std::vector<SweepFigure> figures{
      {"Collectives of a step", "calls", "Calls per step in the steady state.",
       [](const SweepPoint& p) { return p.plan ? static_cast<double>(p.plan->calls()) : NAN; }}};
  for (SweepFigure& f : memory_figures(sweep)) figures.push_back(std::move(f));
  figures.push_back({"Volume of a step", "elements",
                     "Elements communicated per parameter and step (an all_reduce counts twice).",
                     [](const SweepPoint& p) { return p.plan ? p.plan->per_parameter : NAN; }});
  const bool predicted = largest(sweep, predicted_s) > 0;
  if (predicted && sweep.planned)
    figures.push_back(
        time_figure(sweep, "Predicted time of a step", predicted_s, "By the machine file."));
  if (sweep.planned) return figures;
  if (predicted)
    figures.push_back(time_figure(
        sweep, "Time of a step, measured and predicted", measured_s,
        "Median of the timed steps, slowest rank; predicted by the machine file.", predicted_s));
  SweepFigure time =
      time_figure(sweep, "Time of a step", step_s, "Rank 0, mean of the timed steps.");
  const double factor = time.unit == "s" ? 1 : 1e3;
  time.parts = [=](const SweepPoint& p) {
    return std::vector<BarPart>{{"work", "work", own_s(p) * factor},
                                {"waiting", "exposed communication", exposed_s(p) * factor}};
  };
  figures.push_back(std::move(time));
  if (numbers)
    figures.push_back(time_figure(sweep, "Exposed communication", exposed_s,
                                  "The time that the compute lane waited, or spent on progress."));
  return figures;
}

// Memory against time, of all points.
std::string trade_offs(const Sweep& sweep, const std::vector<Axis>& dims) {
  const SweepFigure time = sweep.planned ? time_figure(sweep, "", predicted_s, "")
                                         : time_figure(sweep, "", measured_s, "");
  std::string text;
  for (const SweepFigure& memory : memory_figures(sweep))
    if (const std::string chart = to_html(scatter_chart(sweep, dims, time, memory)); !chart.empty())
      text += titled(
          memory.title,
          sweep.planned ? "Over the predicted time of a step." : "Over the median time of a step.",
          chart);
  return text.empty() ? text : "<h2>Memory against time</h2>\n" + text;
}

// A figure that is the same at all points needs no drawing.
std::string constant(const Sweep& sweep, const SweepFigure& figure) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const SweepPoint& p : sweep.points)
    if (const double v = figure.of(p); std::isfinite(v))
      low = std::min(low, v), high = std::max(high, v);
  if (!std::isfinite(low))
    return fmt::format("<p>{}: no point has this figure.</p>\n", escape(figure.title));
  if (high - low > 1e-9 * std::abs(high)) return {};
  return fmt::format("<p>{}: {:.6g} {} at every point.</p>\n", escape(figure.title), high,
                     escape(figure.unit));
}

std::string dim_section(const Sweep& sweep, const std::vector<Axis>& dims, std::size_t d) {
  const Axis& dim = dims[d];
  const SeriesSet series = series_over(sweep, dims, d);
  std::string text = fmt::format("<h2>Over <code>{}</code></h2>\n", escape(dim.key));
  if (!series.held.empty())
    text += fmt::format("<p>Drawn for {}; the table shows all points.</p>\n", escape(series.held));
  const bool numbers = !numbers_of(dim).empty();
  if (!numbers && series.list.size() > 1) {
    text += "<p>Bars of a group, from the left: ";
    for (std::size_t s = 0; s < series.list.size(); ++s)
      text += (s > 0 ? "; " : "") + escape(series.list[s].name);
    text += ".</p>\n";
  }
  for (const SweepFigure& figure : figures_of(sweep, numbers)) {
    const std::string same = constant(sweep, figure);
    text += !same.empty() ? same
                          : titled(figure.title, figure.note,
                                   to_html(numbers ? curves_chart(dim, series, figure)
                                                   : bars_chart(dim, series, figure)));
  }
  return text;
}

std::string state_cell(const SweepPoint& p) {
  const char* css = p.state == SweepPoint::State::valid     ? "good"
                    : p.state == SweepPoint::State::planned ? "soft"
                                                            : "bad";
  std::string text = fmt::format("<span class=\"{}\">{}</span>", css, to_string(p.state));
  if (p.plan && p.plan->exceeds()) text += " <span class=\"bad\">does not fit</span>";
  return text;
}

std::vector<std::string> plan_cells(const SweepPoint& p) {
  if (!p.plan) return std::vector<std::string>(4);
  return {grouped(p.plan->calls()), fmt::format("{:.3f}", p.plan->per_parameter),
          human_bytes(p.plan->bytes()), human_bytes(p.plan->peak())};
}

std::vector<std::string> run_cells(const SweepPoint& p) {
  if (!p.run) return std::vector<std::string>(5);
  const auto ms = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e3); };
  return {human_bytes(p.run->resident_peak), ms(p.run->step_p50_s), ms(p.run->exposed),
          ms(p.run->hidden), fmt::format("{:.0f}", p.run->tokens_per_s)};
}

std::string points_table(const Sweep& sweep) {
  constexpr std::size_t most_rows = 1000;
  Table table{
      "Collectives and memory of rank 0; times of the rank that spends most time without waiting",
      {"ranks"},
      {},
      2 + sweep.axes.size(),
      1};
  for (const Axis& axis : sweep.axes)
    table.head.push_back(fmt::format("<span title=\"{}\">{}</span>", escape(axis.key),
                                     escape(short_name(axis.key))));
  for (const char* name : {"result", "calls/step", "elements/parameter", "sent/step", "live peak"})
    table.head.emplace_back(name);
  if (!sweep.planned)
    for (const char* name : {"resident", "step p50 ms", "exposed ms", "hidden ms", "tokens/s"})
      table.head.emplace_back(name);
  const std::vector<std::string> predicted = prediction_head(sweep);
  table.head.insert(table.head.end(), predicted.begin(), predicted.end());
  table.head.emplace_back("");
  for (std::size_t i = 0; i < sweep.points.size() && i < most_rows; ++i) {
    const SweepPoint& p = sweep.points[i];
    auto& row = table.rows.emplace_back(std::vector<std::string>{std::to_string(p.at.ranks)});
    for (const auto& [key, value] : p.at.values) row.push_back(escape(value));
    row.push_back(state_cell(p));
    for (std::string& cell : plan_cells(p)) row.push_back(std::move(cell));
    if (!sweep.planned)
      for (std::string& cell : run_cells(p)) row.push_back(std::move(cell));
    for (std::string& cell : prediction_cells(p, predicted.size())) row.push_back(std::move(cell));
    std::string note = escape(p.reason);
    if (p.run)
      note = fmt::format("<a href=\"{}/report.html\">report</a>{}{}", sweep.folders[i],
                         note.empty() ? "" : " ", note);
    row.push_back(note);
  }
  if (sweep.points.size() > most_rows)
    table.caption += fmt::format("; the first {} of {} points; sweep.csv has all", most_rows,
                                 sweep.points.size());
  return "<h2>Points</h2>\n" + to_html(table);
}

std::string planned_note(const Sweep& sweep) {
  if (!sweep.planned) return {};
  return prediction_head(sweep).empty()
             ? "Planned, not run, so there are no times."
             : "Planned, not run: times are predictions of the machine file.";
}

std::string header(const Sweep& sweep) {
  std::string text =
      fmt::format("<header><h1>Sweep of {}</h1>\n<p>{}{}</p>\n", escape(sweep.deck_name),
                  escape(sweep_summary(sweep)),
                  sweep.points.size() < sweep.size
                      ? fmt::format(" of {}; the others are not finished yet", sweep.size)
                      : std::string("."));
  text += fmt::format("<p>Deck <code>{}</code>{}{}; ranks {}. {}</p>\n", escape(sweep.deck_path),
                      sweep.sets.empty() ? "" : " with ", escape(join(sweep.sets, " ")),
                      join(sweep.ranks, ", "), planned_note(sweep));
  for (const Axis& axis : sweep.axes)
    text += fmt::format("<p><code>{}</code>: {}</p>\n", escape(axis.key),
                        escape(join(axis.values, ", ")));
  return text + "</header>\n";
}

}  // namespace

std::string sweep_html(const Sweep& sweep) {
  std::string page = header(sweep);
  const auto dims = dims_of(sweep);
  for (std::size_t d = 0; d < dims.size(); ++d) page += dim_section(sweep, dims, d);
  page += trade_offs(sweep, dims);
  return document(fmt::format("Sweep of {}: ShardMark", sweep.deck_name),
                  page + points_table(sweep));
}

}  // namespace shardmark
