// SPDX-License-Identifier: Apache-2.0
// ci/points says how to call this.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include <ci/points.d/crosswise.hpp>
#include <ci/points.d/fit.hpp>
#include <ci/points.d/null_models.hpp>
#include <ci/points.d/table.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <core/error.hpp>
#include <core/plan/price/step_interval.hpp>
#include <io/machine/machine_file.hpp>

namespace {

using namespace shardmark;
using namespace shardmark::points;

struct Arguments {
  std::string file, format = "text", machines = "inputs/machines", decks, picture;
  bool fit = false, crosswise = false;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] {
      if (++i >= argc) throw DeckError(fmt::format("ci/points: {}: needs a value", word));
      return std::string(argv[i]);
    };
    if (word == "--format")
      a.format = next();
    else if (word == "--machines")
      a.machines = next();
    else if (word == "--decks")
      a.decks = next();
    else if (word == "--picture")
      a.picture = next();
    else if (word == "--fit")
      a.fit = true;
    else if (word == "--crosswise")
      a.crosswise = true;
    else if (word.rfind("--", 0) == 0)
      throw DeckError(fmt::format("ci/points: {}: unknown option", word));
    else
      a.file = word;
  }
  if (a.format != "text" && a.format != "json" && a.format != "markdown")
    throw DeckError(
        fmt::format("ci/points: --format {}: must be text, json or markdown", a.format));
  if (a.file.empty()) throw DeckError("ci/points: give a file of points");
  return a;
}

class Machines {
 public:
  explicit Machines(std::string folder) : folder_(std::move(folder)) {}
  const Machine& of(const Point& p) {
    const std::string file = machine_file_of(p);
    const auto found = known_.find(file);
    if (found != known_.end()) return found->second;
    return known_.emplace(file, read_machine_file(folder_ + "/" + file)).first->second;
  }

 private:
  std::string folder_;
  std::map<std::string, Machine> known_;
};

// Rates per GPU relative to those on the fewest GPUs, predicted and measured.
void add_scaling(const std::vector<Point>& points, std::vector<Row>& rows) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto j = fewest_gpus(points, i);
    if (!j || !rows[i].skipped.empty() || !rows[*j].skipped.empty()) continue;
    rows[i].scaling_error = (1 + rows[i].error()) / (1 + rows[*j].error()) - 1;
  }
}

// Prices every point that can be; those that are not poor become cases.
std::vector<Row> price_all(const Arguments& a, const std::vector<Point>& points,
                           std::vector<Case>& cases) {
  Machines machines(a.machines);
  const std::string folder = a.decks.empty() ? (std::filesystem::temp_directory_path() /
                                                fmt::format("shardmark-points-{}", ::getpid()))
                                                   .string()
                                             : a.decks;
  std::filesystem::create_directories(folder);
  std::vector<Row> rows(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    Row& row = rows[i];
    row.point = &p;
    row.in_fit = !p.poor();
    row.skipped = reason_to_skip(p);
    if (!row.skipped.empty()) continue;
    try {
      Case c;
      c.point = &p;
      c.machine = machine_of(p, machines.of(p));
      c.decks = programs_of(p, c.machine, folder, fmt::format("{}-{}", i, p.source));
      const PredictedStep step = predicted_step(p, c.decks, c.machine);
      row.predicted_s = step.seconds;
      double beyond = 1;
      const Dtype type = c.decks.front().program.precision.computes_in();
      for (const BeyondFit& b :
           beyond_fit(c.machine.provenance.fitted_on, p.model.hidden, p.gpus, type))
        beyond = std::max(beyond, b.times);
      const StepInterval spread = step_interval(c.machine, beyond, step.host_share);
      row.low_s = row.predicted_s * std::max(0.0, 1 - spread.below);
      row.high_s = row.predicted_s * (1 + spread.above);
      if (!p.poor()) cases.push_back(std::move(c));
    } catch (const DeckError& e) {
      row.skipped = e.what();
    }
    row.constant_rate_s = constant_rate_seconds(points, i);
    row.one_efficiency_s = one_efficiency_seconds(points, i);
  }
  if (a.decks.empty()) std::filesystem::remove_all(folder);
  return rows;
}

void print_fit(std::vector<Case>& cases) {
  for (const auto& [group, figures] : fit(cases)) {
    fmt::print("{}\n", group);
    for (std::size_t k = 0; k < fitted_figures; ++k)
      fmt::print("  {} {:.3f}\n", fitted_figure_list()[k].key, std::exp(figures[k]));
  }
}

void print_crosswise(const Arguments& a, std::vector<Case>& cases,
                     const std::vector<Point>& points) {
  const std::vector<Way> ways = crosswise(cases, points);
  const std::vector<Mean> means = crossed_means(ways);
  if (a.format == "json")
    fmt::print("{}\n", crosswise_json(means, ways).dump(1));
  else
    fmt::print("{}", a.format == "markdown" ? means_markdown("left out", means)
                                           : means_text("left out", means));
}

int run(const Arguments& a) {
  const std::vector<Point> points = read_points(a.file);
  std::vector<Case> cases;
  std::vector<Row> rows = price_all(a, points, cases);
  if (a.fit) return print_fit(cases), 0;
  if (a.crosswise) return print_crosswise(a, cases, points), 0;
  add_scaling(points, rows);
  if (!a.picture.empty()) std::ofstream(a.picture) << picture(rows);
  if (a.format == "json")
    fmt::print("{}\n", json_table(rows).dump(1));
  else
    fmt::print("{}", a.format == "markdown" ? means_markdown("points", means(rows)) : text_table(rows));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
