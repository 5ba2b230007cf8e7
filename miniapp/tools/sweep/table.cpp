// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {
namespace {

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string{};
}

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string quoted(const std::string& cell) {
  return cell.find_first_of(",\"\r\n") == std::string::npos ? cell : csv_quoted(cell);
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + quoted(cells[i]);
  return line + "\n";
}

constexpr Op collectives[] = {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce,
                              Op::broadcast,  Op::all_to_all,     Op::barrier};

// A column of the CSV by its name, and its cell for figures of one kind.
template<class Figures>
struct Column {
  std::string name;
  std::function<std::string(const Figures&)> cell;
};

std::vector<Column<PlanFigures>> plan_columns() {
  using F = const PlanFigures&;
  std::vector<Column<PlanFigures>> all{
      {"stage", [](F f) { return std::to_string(f.stage); }},
      {"schedule", [](F f) { return f.schedule; }},
      {"parameters", [](F f) { return std::to_string(f.parameters); }},
      {"layers", [](F f) { return f.layers > 0 ? std::to_string(f.layers) : ""; }},
      {"train_batch_size", [](F f) { return std::to_string(f.batch.global); }},
      {"train_micro_batch_size_per_gpu", [](F f) { return std::to_string(f.batch.micro); }},
      {"gradient_accumulation_steps", [](F f) { return std::to_string(f.batch.accumulation); }},
      {"step_calls", [](F f) { return std::to_string(f.calls()); }}};
  for (const Op op : collectives)
    all.push_back({fmt::format("step_calls_{}", to_string(op)), [op](F f) {
                     return std::to_string(f.step.contains(op) ? f.step.at(op).calls : 0);
                   }});
  all.push_back({"step_bytes", [](F f) { return std::to_string(f.bytes()); }});
  all.push_back({"elems_per_parameter", [](F f) { return number(f.per_parameter); }});
  all.push_back({"live_peak_bytes", [](F f) { return std::to_string(f.peak()); }});
  for (const Tier t : all_values<Tier>) {
    const auto tier = to_string(t);
    all.push_back({fmt::format("{}_allocated_bytes", tier),
                   [t](F f) { return std::to_string(f.allocated[t]); }});
    for (const Category c : all_values<Category>)
      all.push_back({fmt::format("{}_{}_bytes", tier, to_string(c)),
                     [t, c](F f) { return std::to_string(f.at_peak[t][c]); }});
    all.push_back({fmt::format("{}_fits", tier),
                   [t](F f) { return f.fits[t] ? (*f.fits[t] ? "yes" : "no") : ""; }});
  }
  return all;
}

template<class Figures, class Value, std::size_t Count>
void append_named(std::vector<Column<Figures>>& all,
                  const NamedFigure<Figures, Value> (&figures)[Count]) {
  for (const auto& named : figures)
    all.push_back({named.name, [of = named.of](const Figures& f) { return number(f.*of); }});
}

std::vector<Column<RunFigures>> run_columns() {
  using F = const RunFigures&;
  std::vector<Column<RunFigures>> all;
  append_named(all, run_reals);
  append_named(all, run_counts);
  for (const Tier t : all_values<Tier>)
    all.push_back({fmt::format("{}_measured_bytes", to_string(t)),
                   [t](F f) { return std::to_string(f.measured[t]); }});
  return all;
}

std::vector<Column<PredictedFigures>> predicted_columns() {
  std::vector<Column<PredictedFigures>> all;
  append_named(all, predicted_reals);
  all.push_back({"limited_by", [](const PredictedFigures& f) { return f.limited_by; }});
  return all;
}

// The cells of a point, which are empty if it has no such figures.
template<class Figures>
void append(std::vector<std::string>& row, const std::vector<Column<Figures>>& columns,
            const std::optional<Figures>& figures) {
  for (const auto& column : columns) row.push_back(figures ? column.cell(*figures) : "");
}

template<class Figures>
void append_names(std::vector<std::string>& head, const std::vector<Column<Figures>>& columns) {
  for (const auto& column : columns) head.push_back(column.name);
}

bool any_predicted(const Sweep& sweep) {
  return std::ranges::any_of(sweep.points,
                             [](const SweepPoint& p) { return p.predicted.has_value(); });
}

// The cells are empty if a point has no such figures.
void append(std::vector<std::string>& row, const std::vector<std::string>& cells,
            std::size_t columns) {
  row.insert(row.end(), cells.begin(), cells.end());
  row.insert(row.end(), columns - cells.size(), "");
}

}  // namespace

std::string sweep_csv(const Sweep& sweep) {
  const auto of_plan = plan_columns();
  const auto of_run = run_columns();
  std::vector<Column<PredictedFigures>> of_prediction;  // without, those that scripts know
  if (any_predicted(sweep)) of_prediction = predicted_columns();
  std::vector<std::string> head{"ranks"};
  for (const Axis& axis : sweep.axes) head.push_back(axis.key);
  for (const char* name : {"result", "status", "reason", "folder"}) head.emplace_back(name);
  append_names(head, of_plan);
  append_names(head, of_run);
  append_names(head, of_prediction);
  std::string text = joined(head);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& p = sweep.points[i];
    std::vector<std::string> row{std::to_string(p.at.ranks)};
    for (const auto& [key, value] : p.at.values) row.push_back(value);
    row.emplace_back(to_string(p.state));
    row.push_back(std::to_string(static_cast<int>(p.status)));
    row.push_back(p.reason);
    row.push_back(sweep.folders[i]);
    append(row, of_plan, p.plan);
    append(row, of_run, p.run);
    append(row, of_prediction, p.predicted);
    text += joined(row);
  }
  return text;
}

std::vector<std::string> prediction_head(const Sweep& sweep) {
  if (!any_predicted(sweep)) return {};
  if (sweep.planned) return {"predicted ms"};
  return {"predicted ms", "error"};
}

// The predicted time of a step, and the error where a step was measured.
std::vector<std::string> prediction_cells(const SweepPoint& p, std::size_t columns) {
  std::vector<std::string> cells(columns);
  if (!p.predicted || columns == 0) return cells;
  cells[0] = fmt::format("{:.2f}", p.predicted->step_s * 1e3);
  if (columns > 1 && p.run && p.run->step_p50_s > 0)
    cells[1] = relation(p.predicted->step_s, p.run->step_p50_s);
  return cells;
}

std::string sweep_text(const Sweep& sweep) {
  std::vector<std::vector<std::string>> rows(1, {"ranks"});
  auto& head = rows[0];
  for (const Axis& axis : sweep.axes) head.push_back(short_name(axis.key));
  for (const char* name : {"result", "calls/step", "elements/parameter", "live peak"})
    head.emplace_back(name);
  if (!sweep.planned)
    for (const char* name : {"step ms", "exposed ms", "hidden ms", "tokens/s"})
      head.emplace_back(name);
  const std::vector<std::string> predicted = prediction_head(sweep);
  append(head, predicted, predicted.size());
  std::string reasons;
  for (const SweepPoint& p : sweep.points) {
    auto& row = rows.emplace_back(std::vector<std::string>{std::to_string(p.at.ranks)});
    for (const auto& [key, value] : p.at.values) row.push_back(printable(value));
    const bool too_large = p.status == ExitStatus::memory ||
                           (p.plan && std::ranges::any_of(p.plan->fits, [](const auto& fits) {
                              return fits && !*fits;
                            }));
    row.push_back(std::string(to_string(p.state)) + (too_large ? ", does not fit" : ""));
    append(row,
           p.plan ? std::vector<std::string>{std::to_string(p.plan->calls()),
                                             fmt::format("{:.3f}", p.plan->per_parameter),
                                             human_bytes(p.plan->peak())}
                  : std::vector<std::string>{},
           3);
    if (!sweep.planned)
      append(row,
             p.run ? std::vector<std::string>{fmt::format("{:.2f}", p.run->step_p50_s * 1e3),
                                              fmt::format("{:.2f}", p.run->exposed * 1e3),
                                              fmt::format("{:.2f}", p.run->hidden * 1e3),
                                              fmt::format("{:.0f}", p.run->tokens_per_s)}
                   : std::vector<std::string>{},
             4);
    append(row, prediction_cells(p, predicted.size()), predicted.size());
    if (!p.reason.empty())
      reasons += fmt::format("  {} on {}, {}: {}\n", to_string(p.state), plural(p.at.ranks, "rank"),
                             printable(join(p.at.sets(), " ")), printable(p.reason));
  }
  return join(in_columns(rows, {.left = 0, .gap = " "}), "\n") + "\n" + reasons;
}

std::string sweep_summary(const Sweep& sweep) {
  std::string text = plural(static_cast<std::int64_t>(sweep.points.size()), "point");
  using Is = SweepPoint::State;
  const char* separator = ": ";
  for (const Is s : {Is::planned, Is::valid, Is::invalid, Is::refused}) {
    const auto n =
        std::ranges::count_if(sweep.points, [s](const SweepPoint& p) { return p.state == s; });
    if (n == 0) continue;
    text += fmt::format("{}{} {}", separator, n, to_string(s));
    separator = ", ";
  }
  return text;
}

ExitStatus sweep_status(const Sweep& sweep) {
  const auto bad = std::ranges::find_if(
      sweep.points, [](const SweepPoint& p) { return p.status != ExitStatus::valid; });
  return bad == sweep.points.end() ? ExitStatus::valid : bad->status;
}

}  // namespace shardmark
