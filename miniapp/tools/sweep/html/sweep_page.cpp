// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/table.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/tools/sweep/html/sweep_dims.hpp>
#include <miniapp/tools/sweep/html/sweep_page.hpp>

namespace shardmark {
namespace {

using namespace html;

double live_peak(const SweepPoint& p) {
  return p.plan ? static_cast<double>(p.plan->peak()) : NAN;
}
double own_s(const SweepPoint& p) {
  return p.run ? p.run->forward_s + p.run->backward_s + p.run->optimizer_s - p.run->exposed_s : NAN;
}
double exposed_s(const SweepPoint& p) {
  return p.run ? p.run->exposed_s : NAN;
}
double step_s(const SweepPoint& p) {
  return own_s(p) + exposed_s(p);
}
double calls(const SweepPoint& p) {
  return p.plan ? static_cast<double>(p.plan->calls()) : NAN;
}
double volume_of(const SweepPoint& p) {
  return p.plan ? p.plan->per_parameter : NAN;
}
template<Category c>
double category(const SweepPoint& p) {
  double sum = 0;
  if (p.plan)
    for (const CategoryBytes& tier : p.plan->at_peak) sum += static_cast<double>(tier[c]);
  return sum;
}

double predicted_s(const SweepPoint& p) {
  return p.predicted ? p.predicted->step_s : NAN;
}
double measured_s(const SweepPoint& p) {
  return p.run ? p.run->step_p50_s : NAN;
}

// Figures whose unit depends on the largest value.
double largest(const Sweep& sweep, double (*of)(const SweepPoint&)) {
  double most = 0;
  for (const SweepPoint& p : sweep.points)
    if (const double v = of(p); std::isfinite(v)) most = std::max(most, v);
  return most;
}

SweepFigure memory_figure(const Sweep& sweep) {
  const bool large = largest(sweep, live_peak) >= gib_bytes;
  return {
      "Memory: live peak of rank 0", large ? "GiB" : "MiB",
      "Both tiers, each at its own peak. Predicted to the byte; runs that end VALID confirm it.",
      live_peak, 1 / (large ? gib_bytes : mib_bytes)};
}
SweepFigure calls_figure() {
  return {"Collectives of a step", "calls", "Calls per step in the steady state.", calls, 1};
}
SweepFigure volume_figure() {
  return {"Volume of a step", "elements",
          "Elements communicated per parameter and step (an all_reduce counts twice).", volume_of,
          1};
}
SweepFigure time_figure(const Sweep& sweep, const char* title, double (*of)(const SweepPoint&),
                        const char* note, double (*predicted)(const SweepPoint&) = nullptr) {
  const bool seconds = std::max(largest(sweep, step_s), largest(sweep, predicted_s)) >= 2;
  return {title, seconds ? "s" : "ms", note, of, seconds ? 1.0 : 1e3, predicted};
}

std::vector<Part> category_parts() {
  return {{"param", "param", category<Category::param>},
          {"grad", "grad", category<Category::grad>},
          {"master", "master", category<Category::master>},
          {"momentum", "momentum", category<Category::momentum>},
          {"variance", "variance", category<Category::variance>},
          {"bucket", "bucket", category<Category::bucket>},
          {"gathered", "gathered", category<Category::gathered>},
          {"activation", "activation", category<Category::activation>},
          {"workspace", "workspace", category<Category::workspace>},
          {"staging", "staging", category<Category::staging>}};
}

// A figure that is the same at all points needs no drawing.
std::string constant(const Sweep& sweep, const SweepFigure& figure) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const SweepPoint& p : sweep.points)
    if (const double v = figure.of(p) * figure.factor; std::isfinite(v))
      low = std::min(low, v), high = std::max(high, v);
  if (!std::isfinite(low))
    return fmt::format("<p>{}: no point has this figure.</p>\n", escape(figure.title));
  if (high - low > 1e-9 * std::abs(high)) return {};
  return fmt::format("<p>{}: {:.6g} {} at every point.</p>\n", escape(figure.title), high,
                     escape(figure.unit));
}

std::string drawn(const Sweep& sweep, const Dim& dim, const SeriesSet& series,
                  const SweepFigure& figure, const std::vector<Part>& parts) {
  std::string same = constant(sweep, figure);
  if (!same.empty()) return same;
  return dim.numbers().empty() ? bars_chart(dim, series, figure, parts)
                               : curves_chart(dim, series, figure);
}

std::string dim_section(const Sweep& sweep, const std::vector<Dim>& dims, std::size_t d) {
  const Dim& dim = dims[d];
  const SeriesSet series = series_over(sweep, dims, d);
  std::string text = fmt::format("<h2>Over <code>{}</code></h2>\n", escape(dim.key));
  if (!series.held.empty())
    text += fmt::format("<p>Drawn for {}; the table shows all points.</p>\n", escape(series.held));
  if (dim.numbers().empty() && series.list.size() > 1) {
    text += "<p>Bars of a group, from the left: ";
    for (std::size_t s = 0; s < series.list.size(); ++s)
      text += (s > 0 ? "; " : "") + escape(series.list[s].name);
    text += ".</p>\n";
  }
  const auto draw = [&](const SweepFigure& figure, const std::vector<Part>& parts) {
    text += drawn(sweep, dim, series, figure, parts);
  };
  draw(calls_figure(), {{"communication", "", calls}});
  draw(memory_figure(sweep), category_parts());
  draw(volume_figure(), {{"communication", "", volume_of}});
  const bool predicted = largest(sweep, predicted_s) > 0;
  if (sweep.planned) {
    if (predicted)
      draw(time_figure(sweep, "Predicted time of a step", predicted_s, "By the machine file."),
           {{"work", "predicted", predicted_s}});
    return text;
  }
  if (predicted)
    draw(time_figure(sweep, "Time of a step, measured and predicted", measured_s,
                     "Median of the timed steps, slowest rank; predicted by the machine file.",
                     predicted_s),
         {{"work", "measured", measured_s}});
  draw(time_figure(sweep, "Time of a step", step_s, "Rank 0, mean of the timed steps."),
       {{"work", "work", own_s}, {"waiting", "exposed communication", exposed_s}});
  if (!dim.numbers().empty())
    draw(time_figure(sweep, "Exposed communication", exposed_s,
                     "The time that the compute lane waited, or spent on progress."),
         {});
  return text;
}

std::string state_cell(const SweepPoint& p) {
  const char* css = p.state == SweepPoint::State::valid     ? "good"
                    : p.state == SweepPoint::State::planned ? "soft"
                                                            : "bad";
  std::string text = fmt::format("<span class=\"{}\">{}</span>", css, to_string(p.state));
  if (p.plan)
    for (const auto& fits : p.plan->fits)
      if (fits && !*fits) return text + " <span class=\"bad\">does not fit</span>";
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
  return {human_bytes(p.run->resident_peak), ms(p.run->step_p50_s), ms(p.run->exposed_s),
          ms(p.run->hidden_s), fmt::format("{:.0f}", p.run->tokens_per_s)};
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
  table.head.emplace_back("");
  for (std::size_t i = 0; i < sweep.points.size() && i < most_rows; ++i) {
    const SweepPoint& p = sweep.points[i];
    auto& row = table.rows.emplace_back(std::vector<std::string>{std::to_string(p.at.ranks)});
    for (const auto& [key, value] : p.at.values) row.push_back(escape(value));
    row.push_back(state_cell(p));
    for (std::string& cell : plan_cells(p)) row.push_back(std::move(cell));
    if (!sweep.planned)
      for (std::string& cell : run_cells(p)) row.push_back(std::move(cell));
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
  const bool predicted = std::any_of(sweep.points.begin(), sweep.points.end(),
                                     [](const SweepPoint& p) { return p.predicted.has_value(); });
  return predicted ? "Planned, not run: times are predictions of the machine file."
                   : "Planned, not run, so there are no times.";
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
  return document(fmt::format("Sweep of {}: ShardMark", sweep.deck_name),
                  page + points_table(sweep));
}

}  // namespace shardmark
