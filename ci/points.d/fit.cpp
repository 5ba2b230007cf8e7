// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <ci/points.d/fit.hpp>
#include <ci/points.d/null_models.hpp>

namespace shardmark::points {
namespace {

constexpr std::size_t figures_count = fitted_figures;
constexpr double backward_of_forward = 0.8;
constexpr double noise = 0.08;  // of a published time, as the standard deviation of its logarithm

using Matrix = std::vector<std::vector<double>>;

// Solves a positive definite system by Gaussian elimination.
std::vector<double> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  std::vector<double> x(n);
  for (std::size_t i = n; i-- > 0;) {
    double sum = b[i];
    for (std::size_t c = i + 1; c < n; ++c) sum -= a[i][c] * x[c];
    x[i] = sum / a[i][i];
  }
  return x;
}

Figures start() {
  Figures x{};
  for (std::size_t k = 0; k < figures_count; ++k) x[k] = std::log(fitted_figure_list()[k].start);
  return x;
}

// The unknowns of a fit: a generation's own figures, and those that all share, which stand last.
class Unknowns {
 public:
  explicit Unknowns(const std::map<std::string, std::vector<const Case*>>& groups) {
    for (const auto& entry : groups) first_[entry.first] = size(), ++groups_;
  }
  std::size_t size() const { return groups_ * own_figures + (figures_count - own_figures); }
  std::size_t at(const std::string& group, std::size_t figure) const {
    const auto place = static_cast<std::size_t>(std::distance(first_.begin(), first_.find(group)));
    return figure < own_figures ? place * own_figures + figure
                                : groups_ * own_figures + (figure - own_figures);
  }

 private:
  std::map<std::string, std::size_t> first_;
  std::size_t groups_ = 0;
};

// Rows count less the more there are of their source.
std::map<const Case*, double> weights_of(const std::vector<const Case*>& cases) {
  std::map<std::string, int> rows;
  for (const Case* c : cases) ++rows[c->point->source + c->point->gpu];
  std::map<const Case*, double> weights;
  for (const Case* c : cases)
    weights[c] = 1 / std::sqrt(static_cast<double>(rows[c->point->source + c->point->gpu]));
  return weights;
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
  static const std::array<FittedFigure, figures_count> list{
      {{"device.attention_efficiency", 0.8, 0.2, 1},
       {"device.product_efficiency", 0.92, 0.1, 1},
       {"device.product_fill_depth", 128, 0.5, 1e4},
       {"device.stream_efficiency", 0.85, 0.1, 1},
       {"network.compute_share", 0.2, 0.5, 1},
       {"software.eager_traffic", 1.2, 0.2, 10},
       {"software.eager_launch_us", 40, 0.3, 1e3}}};
  return list;
}

void set_figures(const Figures& x, const Point& point, Machine& m) {
  constexpr double us = 1e-6;
  const double reached = part_of_clock(point) * largest_product(point);
  m.device.attention_efficiency = std::exp(x[0]) * reached;
  m.device.attention_backward_efficiency = backward_of_forward * m.device.attention_efficiency;
  m.device.product_efficiency = std::exp(x[1]) * reached;
  m.device.product_efficiency_of.fill(0);
  m.device.product_fill_depth = std::exp(x[2]);
  m.device.stream_efficiency = std::exp(x[3]);
  for (NetworkLevel& level : m.network) level.compute_share = std::exp(x[4]);
  m.software.eager_traffic = std::exp(x[5]);
  m.software.eager_launch_s = std::exp(x[6]) * us;
}

double part_of_clock(const Point& p) {
  // Power follows the third power of the clock where the voltage follows the clock.
  return p.gpu.find("500W") != std::string::npos ? std::cbrt(500.0 / 700) : 1;
}

double largest_product(const Point& p) {
  // stas00/ml-engineering compute/accelerator/README.md @744d01e1, "Maximum Achievable Matmul FLOPS"
  // of bf16; of MI250X in an older version of the table, for ROCm 6.2.
  static const std::pair<const char*, double> parts[] = {
      {"A100", 271.2 / 312},   {"H100", 794.5 / 989},     {"H200", 794.5 / 989},
      {"GH200", 828.6 / 989},  {"B200", 1745.0 / 2250},   {"MI250", 147.0 / 191.5},
      {"MI300X", 668.4 / 1307}};
  constexpr double of_others = 0.83;  // the mean of A100, H100 and B200
  for (const auto& [gpu, part] : parts)
    if (p.gpu.rfind(gpu, 0) == 0) return part;
  return of_others;
}

double seconds_with(const Case& c, const Figures& figures) {
  Machine machine = c.machine;
  set_figures(figures, *c.point, machine);
  return predicted_step(*c.point, c.decks, machine).seconds;
}

std::map<std::string, Figures> fit(std::vector<Case>& cases) {
  constexpr int steps = 6;
  std::map<std::string, Figures> fitted;
  for (const Case& c : cases) fitted.emplace(generation_of(*c.point), start());
  for (int i = 0; i <= steps; ++i) {
    std::vector<const Case*> all;
    for (Case& c : cases) take_slopes(c, fitted.at(generation_of(*c.point))), all.push_back(&c);
    if (i < steps) fitted = refit(all, fitted);
  }
  return fitted;
}

std::map<std::string, Figures> refit(const std::vector<const Case*>& cases,
                                     const std::map<std::string, Figures>& from) {
  std::map<std::string, std::vector<const Case*>> groups;
  for (const Case* c : cases) groups[generation_of(*c->point)].push_back(c);
  const Unknowns unknowns(groups);
  Matrix a(unknowns.size(), std::vector<double>(unknowns.size()));
  std::vector<double> b(unknowns.size());
  const Figures before = start();
  for (const auto& [name, members] : groups)
    for (std::size_t k = 0; k < figures_count; ++k) {
      const double shared = k < own_figures ? 1 : 1.0 / static_cast<double>(groups.size());
      const double pull = shared * std::pow(noise / fitted_figure_list()[k].spread, 2);
      const std::size_t i = unknowns.at(name, k);
      a[i][i] += pull;
      b[i] += pull * (before[k] - from.at(name)[k]);
    }
  for (const auto& [c, weight] : weights_of(cases)) {
    const std::string group = generation_of(*c->point);
    for (std::size_t r = 0; r < figures_count; ++r) {
      for (std::size_t k = 0; k < figures_count; ++k)
        a[unknowns.at(group, r)][unknowns.at(group, k)] += weight * c->slopes[r] * c->slopes[k];
      b[unknowns.at(group, r)] -= weight * c->slopes[r] * c->log_ratio;
    }
  }
  const std::vector<double> x = solve(a, b);
  constexpr double farthest = 0.5;
  std::map<std::string, Figures> fitted;
  for (const auto& entry : groups)
    for (std::size_t k = 0; k < figures_count; ++k)
      fitted[entry.first][k] =
          std::min(from.at(entry.first)[k] +
                       std::clamp(x[unknowns.at(entry.first, k)], -farthest, farthest),
                   std::log(fitted_figure_list()[k].most));
  return fitted;
}

Figures figures_for(const Point& point, const std::map<std::string, Figures>& fitted) {
  if (const auto found = fitted.find(generation_of(point)); found != fitted.end()) return found->second;
  Figures figures = start();
  if (!fitted.empty())
    std::copy(fitted.begin()->second.begin() + own_figures, fitted.begin()->second.end(),
              figures.begin() + own_figures);
  return figures;
}

}  // namespace shardmark::points
