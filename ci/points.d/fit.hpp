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

/// How many figures are fitted.
inline constexpr std::size_t fitted_figures = 4;
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

/// Whether the machine files that come with the program were fitted with this point.
bool in_fit(const Point& point);

/// A point with its programs and machine.
struct Case {
  const Point* point = nullptr;
  std::vector<PricedDeck> decks;
  Machine machine;
  double log_ratio = 0;  // of predicted over measured, at the figures of the last full fit
  Figures slopes{};      // its derivatives
};

/// The machine files whose figures are fitted together: those of one kind of GPU.
std::string fit_group(const Point& point);
/// The group that stands for one without points.
std::string group_instead(const Point& point);

/// Sets the figures of a machine.
void set_figures(const Figures& figures, Machine& machine);

/// Seconds of a case with these figures.
double seconds_with(const Case& c, const Figures& figures);

/// The figures that miss all cases least, by group. Sets `log_ratio` and `slopes` of each case, for
/// `refit`. A row counts less the more rows have its source, GPU and width.
std::map<std::string, Figures> fit(std::vector<Case>& cases);

/// The same with only some of the cases, starting from `from`: one step of the method. The result
/// has the groups that any of the cases belong to.
std::map<std::string, Figures> refit(const std::vector<const Case*>& cases,
                                     const std::map<std::string, Figures>& from);

/// The figures for a point: of its group, else of the group that stands for it, else the starting
/// values.
Figures figures_for(const Point& point, const std::map<std::string, Figures>& fitted);

}  // namespace shardmark::points
