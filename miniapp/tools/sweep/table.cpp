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

// A column of the CSV by its name, and its cell for a point.
struct Column {
  std::string name;
  std::function<std::string(const SweepPoint&)> cell;
};

// Adds a column of figures of one kind; the cell is empty if a point has no such figures.
template<class Figures, class Cell>
void add(std::vector<Column>& all, std::optional<Figures> SweepPoint::*figures,
         const std::string& name, const Cell& cell) {
  all.push_back({name, [figures, cell](const SweepPoint& p) {
                   return p.*figures ? cell(*(p.*figures)) : std::string();
                 }});
}
template<class Figures, class Value, std::size_t Count>
void add_named(std::vector<Column>& all, std::optional<Figures> SweepPoint::*figures,
               const NamedFigure<Figures, Value> (&list)[Count]) {
  for (const auto& named : list)
    add(all, figures, named.name, [of = named.of](const Figures& f) { return number(f.*of); });
}

void add_plan(std::vector<Column>& all) {
  using F = const PlanFigures&;
  const auto column = [&](const std::string& name, const auto& cell) {
    add(all, &SweepPoint::plan, name, cell);
  };
  column("stage", [](F f) { return std::to_string(f.stage); });
  column("schedule", [](F f) { return f.schedule; });
  column("parameters", [](F f) { return std::to_string(f.parameters); });
  column("layers", [](F f) { return f.layers > 0 ? std::to_string(f.layers) : ""; });
  column("train_batch_size", [](F f) { return std::to_string(f.batch.global); });
  column("train_micro_batch_size_per_gpu", [](F f) { return std::to_string(f.batch.micro); });
  column("gradient_accumulation_steps", [](F f) { return std::to_string(f.batch.accumulation); });
  column("step_calls", [](F f) { return std::to_string(f.calls()); });
  for (const Op op : collectives)
    column(fmt::format("step_calls_{}", to_string(op)),
           [op](F f) { return std::to_string(f.step.contains(op) ? f.step.at(op).calls : 0); });
  column("step_bytes", [](F f) { return std::to_string(f.bytes()); });
  column("elems_per_parameter", [](F f) { return number(f.per_parameter); });
  column("live_peak_bytes", [](F f) { return std::to_string(f.peak()); });
  for (const Tier t : all_values<Tier>) {
    const auto tier = to_string(t);
    column(fmt::format("{}_allocated_bytes", tier),
           [t](F f) { return std::to_string(f.allocated[t]); });
    for (const Category c : all_values<Category>)
      column(fmt::format("{}_{}_bytes", tier, to_string(c)),
             [t, c](F f) { return std::to_string(f.at_peak[t][c]); });
    column(fmt::format("{}_fits", tier),
           [t](F f) { return std::string(f.fits[t] ? (*f.fits[t] ? "yes" : "no") : ""); });
  }
}

void add_run(std::vector<Column>& all) {
  add_named(all, &SweepPoint::run, run_reals);
  add_named(all, &SweepPoint::run, run_counts);
  for (const Tier t : all_values<Tier>)
    add(all, &SweepPoint::run, fmt::format("{}_measured_bytes", to_string(t)),
        [t](const RunFigures& f) { return std::to_string(f.measured[t]); });
}

void add_predicted(std::vector<Column>& all) {
  add_named(all, &SweepPoint::predicted, predicted_reals);
  add(all, &SweepPoint::predicted, "limited_by",
      [](const PredictedFigures& f) { return f.limited_by; });
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
  std::vector<Column> columns;
  add_plan(columns);
  add_run(columns);
  if (any_predicted(sweep)) add_predicted(columns);  // otherwise those that scripts know
  std::vector<std::string> head{"ranks"};
  for (const Axis& axis : sweep.axes) head.push_back(axis.key);
  for (const char* name : {"result", "status", "reason", "folder"}) head.emplace_back(name);
  for (const Column& column : columns) head.push_back(column.name);
  std::string text = joined(head);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& p = sweep.points[i];
    std::vector<std::string> row{std::to_string(p.at.ranks)};
    for (const auto& [key, value] : p.at.values) row.push_back(value);
    row.emplace_back(to_string(p.state));
    row.push_back(std::to_string(static_cast<int>(p.status)));
    row.push_back(p.reason);
    row.push_back(sweep.folders[i]);
    for (const Column& column : columns) row.push_back(column.cell(p));
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
    const bool too_large = p.status == ExitStatus::memory || (p.plan && p.plan->exceeds());
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
  std::string text = plural(std::ssize(sweep.points), "point");
  const char* separator = ": ";
  for (const auto s : all_values<SweepPoint::State>) {
    const auto n = std::ranges::count(sweep.points, s, &SweepPoint::state);
    if (n == 0) continue;
    text += fmt::format("{}{} {}", separator, n, to_string(s));
    separator = ", ";
  }
  return text;
}

ExitStatus sweep_status(const Sweep& sweep) {
  const auto bad = std::ranges::find_if(
      sweep.points, [](ExitStatus status) { return status != ExitStatus::valid; },
      &SweepPoint::status);
  return bad == sweep.points.end() ? ExitStatus::valid : bad->status;
}

}  // namespace shardmark
