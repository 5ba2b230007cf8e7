// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {
namespace {

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string{};
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

std::vector<std::string> plan_head() {
  std::vector<std::string> head{"stage",
                                "schedule",
                                "parameters",
                                "layers",
                                "train_batch_size",
                                "train_micro_batch_size_per_gpu",
                                "gradient_accumulation_steps",
                                "step_calls"};
  for (const Op op : collectives) head.push_back(fmt::format("step_calls_{}", to_string(op)));
  for (const char* name : {"step_bytes", "elems_per_parameter", "live_peak_bytes"})
    head.emplace_back(name);
  for (const Tier t : all_values<Tier>) {
    const auto tier = to_string(t);
    head.push_back(fmt::format("{}_allocated_bytes", tier));
    for (const Category c : all_values<Category>)
      head.push_back(fmt::format("{}_{}_bytes", tier, to_string(c)));
    head.push_back(fmt::format("{}_fits", tier));
  }
  return head;
}

std::vector<std::string> plan_cells(const PlanFigures& f) {
  std::vector<std::string> cells{std::to_string(f.stage),
                                 f.schedule,
                                 std::to_string(f.parameters),
                                 f.layers > 0 ? std::to_string(f.layers) : "",
                                 std::to_string(f.batch.global),
                                 std::to_string(f.batch.micro),
                                 std::to_string(f.batch.accumulation),
                                 std::to_string(f.calls())};
  for (const Op op : collectives)
    cells.push_back(std::to_string(f.step.contains(op) ? f.step.at(op).calls : 0));
  cells.push_back(std::to_string(f.bytes()));
  cells.push_back(number(f.per_parameter));
  cells.push_back(std::to_string(f.peak()));
  for (const Tier t : all_values<Tier>) {
    cells.push_back(std::to_string(f.allocated[t]));
    for (const std::int64_t bytes : f.at_peak[t]) cells.push_back(std::to_string(bytes));
    cells.emplace_back(f.fits[t] ? (*f.fits[t] ? "yes" : "no") : "");
  }
  return cells;
}

std::vector<std::string> run_head() {
  std::vector<std::string> head;
  for (const NamedReal& n : run_reals) head.emplace_back(n.name);
  for (const NamedCount& n : run_counts) head.emplace_back(n.name);
  for (const Tier t : all_values<Tier>)
    head.push_back(fmt::format("{}_measured_bytes", to_string(t)));
  return head;
}

std::vector<std::string> run_cells(const RunFigures& f) {
  std::vector<std::string> cells;
  for (const NamedReal& n : run_reals) cells.push_back(number(f.*n.of));
  for (const NamedCount& n : run_counts) cells.push_back(std::to_string(f.*n.of));
  for (const std::int64_t bytes : f.measured) cells.push_back(std::to_string(bytes));
  return cells;
}

std::vector<std::string> predicted_head() {
  std::vector<std::string> head;
  for (const NamedPrediction& n : predicted_reals) head.emplace_back(n.name);
  head.emplace_back("limited_by");
  return head;
}

std::vector<std::string> predicted_cells(const PredictedFigures& f) {
  std::vector<std::string> cells;
  for (const NamedPrediction& n : predicted_reals) cells.push_back(number(f.*n.of));
  cells.push_back(f.limited_by);
  return cells;
}

bool any_predicted(const Sweep& sweep) {
  return std::any_of(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& p) { return p.predicted.has_value(); });
}

// The cells are empty if a point has no such figures.
void append(std::vector<std::string>& row, const std::vector<std::string>& cells,
            std::size_t columns) {
  row.insert(row.end(), cells.begin(), cells.end());
  row.insert(row.end(), columns - cells.size(), "");
}

std::string in_columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    text += " ";
    for (std::size_t i = 0; i < row.size(); ++i) text += fmt::format(" {:>{}}", row[i], widths[i]);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string sweep_csv(const Sweep& sweep) {
  const auto plan_columns = plan_head(), run_columns = run_head();
  std::vector<std::string> head{"ranks"};
  for (const Axis& axis : sweep.axes) head.push_back(axis.key);
  for (const char* name : {"result", "status", "reason", "folder"}) head.emplace_back(name);
  append(head, plan_columns, plan_columns.size());
  append(head, run_columns, run_columns.size());
  const bool predicted = any_predicted(sweep);  // without, the columns are those that scripts know
  const auto predicted_columns = predicted ? predicted_head() : std::vector<std::string>{};
  append(head, predicted_columns, predicted_columns.size());
  std::string text = joined(head);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& p = sweep.points[i];
    std::vector<std::string> row{std::to_string(p.at.ranks)};
    for (const auto& [key, value] : p.at.values) row.push_back(value);
    row.emplace_back(to_string(p.state));
    row.push_back(std::to_string(static_cast<int>(p.status)));
    row.push_back(p.reason);
    row.push_back(sweep.folders[i]);
    append(row, p.plan ? plan_cells(*p.plan) : std::vector<std::string>{}, plan_columns.size());
    append(row, p.run ? run_cells(*p.run) : std::vector<std::string>{}, run_columns.size());
    append(row,
           p.predicted && predicted ? predicted_cells(*p.predicted) : std::vector<std::string>{},
           predicted_columns.size());
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
                           (p.plan && std::any_of(p.plan->fits.begin(), p.plan->fits.end(),
                                                  [](const auto& fits) { return fits && !*fits; }));
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
                                              fmt::format("{:.2f}", p.run->exposed_s * 1e3),
                                              fmt::format("{:.2f}", p.run->hidden_s * 1e3),
                                              fmt::format("{:.0f}", p.run->tokens_per_s)}
                   : std::vector<std::string>{},
             4);
    append(row, prediction_cells(p, predicted.size()), predicted.size());
    if (!p.reason.empty())
      reasons += fmt::format("  {} on {}, {}: {}\n", to_string(p.state), plural(p.at.ranks, "rank"),
                             printable(join(p.at.sets(), " ")), printable(p.reason));
  }
  return in_columns(rows) + reasons;
}

std::string sweep_summary(const Sweep& sweep) {
  std::string text = plural(static_cast<std::int64_t>(sweep.points.size()), "point");
  using Is = SweepPoint::State;
  const char* separator = ": ";
  for (const Is s : {Is::planned, Is::valid, Is::invalid, Is::refused}) {
    const auto n = std::count_if(sweep.points.begin(), sweep.points.end(),
                                 [s](const SweepPoint& p) { return p.state == s; });
    if (n == 0) continue;
    text += fmt::format("{}{} {}", separator, n, to_string(s));
    separator = ", ";
  }
  return text;
}

ExitStatus sweep_status(const Sweep& sweep) {
  const auto bad = std::find_if(sweep.points.begin(), sweep.points.end(),
                                [](const SweepPoint& p) { return p.status != ExitStatus::valid; });
  return bad == sweep.points.end() ? ExitStatus::valid : bad->status;
}

}  // namespace shardmark
