// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tuple>

#include <ci/points.d/fit.hpp>

namespace shardmark::points {
namespace {

constexpr std::size_t figures_count = fitted_figures;
constexpr double backward_of_forward = 0.8;
constexpr double noise = 0.05;  // of a published time, as the standard deviation of its logarithm

using Matrix = std::array<Figures, figures_count>;

// Solves a positive definite system by Gaussian elimination.
Figures solve(Matrix a, Figures b) {
  for (std::size_t i = 0; i < figures_count; ++i)
    for (std::size_t r = i + 1; r < figures_count; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < figures_count; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  Figures x{};
  for (std::size_t i = figures_count; i-- > 0;) {
    double sum = b[i];
    for (std::size_t c = i + 1; c < figures_count; ++c) sum -= a[i][c] * x[c];
    x[i] = sum / a[i][i];
  }
  return x;
}

Figures start() {
  Figures x{};
  for (std::size_t k = 0; k < figures_count; ++k) x[k] = std::log(fitted_figure_list()[k].start);
  return x;
}

// One step from `at`, where log_ratio and slopes of the cases were taken.
Figures step(const std::vector<const Case*>& cases, const Figures& at) {
  using Kind = std::tuple<std::string, std::string, std::int64_t>;
  const auto kind_of = [](const Case& c) {
    return Kind{c.point->source, c.point->gpu, c.point->model.hidden};
  };
  std::map<Kind, int> rows;
  for (const Case* c : cases) ++rows[kind_of(*c)];
  Matrix a{};
  Figures b{};
  const Figures before = start();
  for (std::size_t k = 0; k < figures_count; ++k) {
    const double pull = std::pow(noise / fitted_figure_list()[k].spread, 2);
    a[k][k] += pull;
    b[k] += pull * (before[k] - at[k]);
  }
  for (const Case* c : cases) {
    const double weight = 1 / std::sqrt(static_cast<double>(rows[kind_of(*c)]));
    for (std::size_t r = 0; r < figures_count; ++r) {
      for (std::size_t k = 0; k < figures_count; ++k) a[r][k] += weight * c->slopes[r] * c->slopes[k];
      b[r] -= weight * c->slopes[r] * c->log_ratio;
    }
  }
  Figures x = solve(a, b);
  constexpr double farthest = 0.7;
  for (std::size_t k = 0; k < figures_count; ++k)
    x[k] = std::min(at[k] + std::clamp(x[k], -farthest, farthest),
                    std::log(fitted_figure_list()[k].most));
  return x;
}

void take_slopes(Case& c, const Figures& at) {
  constexpr double apart = 0.05;
  c.log_ratio = std::log(seconds_with(c, at) / c.point->step_s);
  for (std::size_t k = 0; k < figures_count; ++k) {
    Figures x = at;
    x[k] -= apart;  // downwards, where no bound is
    c.slopes[k] = (c.log_ratio - std::log(seconds_with(c, x) / c.point->step_s)) / apart;
  }
}

}  // namespace

const std::array<FittedFigure, fitted_figures>& fitted_figure_list() {
  static const std::array<FittedFigure, figures_count> list{{{"product_efficiency", 0.75, 0.5, 1},
                                                     {"stream_efficiency", 0.6, 0.5, 1},
                                                     {"attention_efficiency", 0.35, 0.7, 1},
                                                     {"compute_share", 0.2, 1, 1}}};
  return list;
}

bool in_fit(const Point& p) {
  if (p.poor()) return false;
  const PublishedModel& m = p.model;
  if (p.source == "llm-foundry")
    return (p.gpus == 8 && (m.hidden == 2048 || m.hidden == 4096)) ||
           (p.gpu == "A100-SXM-40GB" && (m.hidden == 8192 || (m.hidden == 768 && p.gpus == 8)));
  if (p.source == "dgxc-nemo") return p.gpus == 8;
  if (p.source == "llm.c") return m.hidden == 1024;
  if (p.source == "torchtitan") return p.gpus == 8;
  return p.source == "vtrain" && p.gpus <= 8 && m.layers == 24;
}

std::string fit_group(const Point& p) {
  return machine_file_of(p);
}

std::string group_instead(const Point& p) {
  Point plain = p;
  plain.source.clear();
  return machine_file_of(plain);
}

void set_figures(const Figures& x, Machine& m) {
  m.device.product_efficiency = std::exp(x[0]);
  m.device.product_efficiency_of.fill(0);
  m.device.stream_efficiency = std::exp(x[1]);
  m.device.attention_efficiency = std::exp(x[2]);
  m.device.attention_backward_efficiency = backward_of_forward * std::exp(x[2]);
  for (NetworkLevel& level : m.network) level.compute_share = std::exp(x[3]);
}

double seconds_with(const Case& c, const Figures& figures) {
  Machine machine = c.machine;
  set_figures(figures, machine);
  return predicted_seconds(*c.point, c.decks, machine);
}

std::map<std::string, Figures> fit(std::vector<Case>& cases) {
  constexpr int steps = 4;
  std::map<std::string, Figures> fitted;
  for (const Case& c : cases) fitted.emplace(fit_group(*c.point), start());
  for (int i = 0; i <= steps; ++i) {
    std::vector<const Case*> all;
    for (Case& c : cases) take_slopes(c, fitted.at(fit_group(*c.point))), all.push_back(&c);
    if (i < steps) fitted = refit(all, fitted);
  }
  return fitted;
}

std::map<std::string, Figures> refit(const std::vector<const Case*>& cases,
                                     const std::map<std::string, Figures>& from) {
  std::map<std::string, std::vector<const Case*>> groups;
  for (const Case* c : cases) groups[fit_group(*c->point)].push_back(c);
  std::map<std::string, Figures> fitted;
  for (const auto& [name, members] : groups) fitted[name] = step(members, from.at(name));
  return fitted;
}

Figures figures_for(const Point& point, const std::map<std::string, Figures>& fitted) {
  for (const std::string& name : {fit_group(point), group_instead(point)})
    if (const auto found = fitted.find(name); found != fitted.end()) return found->second;
  return start();
}

}  // namespace shardmark::points
