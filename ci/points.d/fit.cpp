// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <ci/points.d/fit.hpp>

namespace shardmark::points {
namespace {

constexpr std::size_t fitted = 4;
using Values = std::array<double, fitted>;  // logarithms
constexpr std::array<const char*, fitted> names{"product_efficiency", "stream_efficiency",
                                                "attention_efficiency", "compute_share"};
constexpr double backward_of_forward = 0.8;

void apply(const Values& x, Machine& m) {
  m.device.product_efficiency = std::exp(x[0]);
  m.device.product_efficiency_of.fill(0);
  m.device.stream_efficiency = std::exp(x[1]);
  m.device.attention_efficiency = std::exp(x[2]);
  m.device.attention_backward_efficiency = backward_of_forward * std::exp(x[2]);
  for (NetworkLevel& level : m.network) level.compute_share = std::exp(x[3]);
}

// The method of Nelder and Mead (A Simplex Method for Function Minimization, 1965).
Values minimum(const std::function<double(const Values&)>& f, const Values& start) {
  std::array<std::pair<double, Values>, fitted + 1> simplex;
  for (std::size_t i = 0; i <= fitted; ++i) {
    Values x = start;
    if (i > 0) x[i - 1] += 0.2;
    simplex[i] = {f(x), x};
  }
  const auto by_value = [](const auto& a, const auto& b) { return a.first < b.first; };
  for (int step = 0; step < 400; ++step) {
    std::sort(simplex.begin(), simplex.end(), by_value);
    if (simplex.back().first - simplex.front().first < 1e-10) break;
    Values centre{};
    for (std::size_t i = 0; i < fitted; ++i)
      for (std::size_t k = 0; k < fitted; ++k) centre[k] += simplex[i].second[k] / fitted;
    const auto at = [&](double t) {
      Values x{};
      for (std::size_t k = 0; k < fitted; ++k)
        x[k] = centre[k] + t * (simplex.back().second[k] - centre[k]);
      return std::pair{f(x), x};
    };
    const auto reflected = at(-1);
    if (reflected.first < simplex.front().first) {
      const auto expanded = at(-2);
      simplex.back() = expanded.first < reflected.first ? expanded : reflected;
    } else if (reflected.first < simplex[fitted - 1].first) {
      simplex.back() = reflected;
    } else if (const auto contracted = at(0.5); contracted.first < simplex.back().first) {
      simplex.back() = contracted;
    } else {
      for (std::size_t i = 1; i <= fitted; ++i) {
        for (std::size_t k = 0; k < fitted; ++k)
          simplex[i].second[k] = (simplex[i].second[k] + simplex[0].second[k]) / 2;
        simplex[i].first = f(simplex[i].second);
      }
    }
  }
  return simplex.front().second;
}

}  // namespace

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

std::vector<std::pair<std::string, double>> fit(std::vector<Case> cases, double& rms) {
  const auto error = [&](const Values& x) {
    for (const double v : x)
      if (v > 0) return 9.0;  // an efficiency is at most 1
    double sum = 0;
    for (Case& c : cases) {
      apply(x, c.machine);
      const double e = std::log(predicted_seconds(*c.point, c.decks, c.machine) / c.point->step_s);
      sum += e * e;
    }
    return sum / static_cast<double>(cases.size());
  };
  const Values start{std::log(0.75), std::log(0.6), std::log(0.35), std::log(0.2)};
  const Values best = minimum(error, start);
  rms = std::sqrt(error(best));
  std::vector<std::pair<std::string, double>> found;
  for (std::size_t k = 0; k < fitted; ++k) found.emplace_back(names[k], std::exp(best[k]));
  return found;
}

}  // namespace shardmark::points
