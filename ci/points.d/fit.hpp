// SPDX-License-Identifier: Apache-2.0
// The few figures of machine files that no datasheet has, fitted to points: least squares of the
// logarithms of predicted over measured times, by Gauss and Newton's method.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include <ci/points.d/deck_of_point.hpp>

namespace shardmark::points {

/// How many figures are fitted, and how many of them, the first ones, each generation of GPUs has for
/// itself. All share the others.
inline constexpr std::size_t fitted_figures = 7, own_figures = 1;
/// The place of software.eager_launch_us.
inline constexpr std::size_t launch_figure = fitted_figures - 1;
/// Their logarithms.
using Figures = std::array<double, fitted_figures>;

/// A figure of a machine file that points decide.
struct FittedFigure {
  const char* key;  // in a machine file
  double start;     // what it is without any points
  double spread;    // how far from that it may be, as the standard deviation of its logarithm
  double most;      // its bound
};
const std::array<FittedFigure, fitted_figures>& fitted_figure_list();

/// A point with its programs and machine.
struct Case {
  const Point* point = nullptr;
  std::vector<PricedDeck> decks;
  Machine machine;
  double log_ratio = 0;  // of predicted over measured, at the figures of the last full fit
  Figures slopes{};      // its derivatives
};

/// Sets the figures of a point's machine.
void set_figures(const Figures& figures, const Point& point, Machine& machine);

/// The part of its usual clock at which a GPU with less power computes.
double part_of_clock(const Point& point);

/// The part of the peak that the largest products of the point's GPU reach, as published. The figures
/// "device.product_efficiency" and "device.attention_efficiency" are parts of it.
double largest_product(const Point& point);

/// Seconds of a case with these figures.
double seconds_with(const Case& c, const Figures& figures);

/// The figures that miss all cases least, by group: the points of one generation of GPUs. Sets `log_ratio` and `slopes` of each case, for
/// `refit`. A row counts less the more rows have its source, GPU and width.
std::map<std::string, Figures> fit(std::vector<Case>& cases);

/// The same with only some of the cases, starting from `from`: one step of the method. The result
/// has the groups that any of the cases belong to.
std::map<std::string, Figures> refit(const std::vector<const Case*>& cases,
                                     const std::map<std::string, Figures>& from);

/// The figures for a point: of its group, else those that all groups share, and the starting values of
/// a generation's own.
Figures figures_for(const Point& point, const std::map<std::string, Figures>& fitted);

}  // namespace shardmark::points
