// SPDX-License-Identifier: Apache-2.0
// How well figures predict points to which they were not fitted: a part of the points is left out,
// the figures are fitted to the others, and the part is predicted; then the next part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ci/points.d/fit.hpp>
#include <ci/points.d/table.hpp>
#include <nlohmann/json_fwd.hpp>

namespace shardmark::points {

/// A point, predicted by figures that were fitted without it.
struct LeftOut {
  const Point* point = nullptr;
  std::string part;        // what was left out with it
  double predicted_s = 0;
  double host_share = 0;  // of its step, in which the host of eager software limits it
  double reach = 0;       // the interval that the other parts give: |log(predicted / measured)|
  std::optional<double> constant_rate_s;  // null models, see null_models.hpp
  std::optional<double> one_efficiency_s;
  double error() const { return predicted_s / point->step_s - 1; }
  bool covered() const;
};

/// One way of leaving out, with a result for each point.
struct Way {
  std::string name;  // "one width"
  std::vector<LeftOut> points;
  std::map<std::string, std::map<std::string, Figures>> figures;  // by part and generation
};

/// Leaves out one width, one number of layers, one source, one kind of GPU, one generation of GPUs.
/// Sets the slopes of the cases. The null model "one efficiency" is the geometric mean of the
/// efficiencies of the points that were not left out, of the same generation where there are any.
std::vector<Way> crosswise(std::vector<Case>& cases, const std::vector<Point>& points);

/// A line per way, and one for the fit to all points; then one per source that was left out.
std::vector<Mean> crossed_means(const std::vector<Way>& ways);

nlohmann::ordered_json crosswise_json(const std::vector<Mean>& means, const std::vector<Way>& ways);

}  // namespace shardmark::points
