// SPDX-License-Identifier: Apache-2.0
// Predicted beside measured: as text, JSON, Markdown and a picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ci/points.d/point.hpp>
#include <nlohmann/json_fwd.hpp>

namespace shardmark::points {

struct Row {
  const Point* point = nullptr;
  std::string skipped;  // why there is no prediction; empty: there is one
  double predicted_s = 0;
  double low_s = 0, high_s = 0;  // the interval of the prediction
  bool in_fit = false;
  std::optional<double> constant_rate_s, one_efficiency_s;  // null models
  std::optional<double> scaling_error;  // of the rate relative to that on the fewest GPUs
  double error() const { return predicted_s / point->step_s - 1; }
  bool contains_measured() const { return low_s <= point->step_s && point->step_s <= high_s; }
};

/// Means of |error| over rows.
struct Mean {
  std::string name;
  int rows = 0, parts = 0;  // parts that were left out, each for itself; 0: these are fitted
  double mean = 0, worst = 0, bias = 0;
  double covered = 0;  // the part of the rows whose interval contains the measurement; -1: none has
  std::optional<double> constant_rate,
      one_efficiency;  // of the null models, over rows that have one
};

/// Sums up rows for a mean.
class MeanOf {
 public:
  explicit MeanOf(std::string name) { sum_.name = std::move(name); }
  /// `covered`: the interval of the prediction contains the measurement; null: it has no interval.
  /// Null models may have no prediction, in seconds per step.
  void add(const Point& point, double error, std::optional<bool> covered,
           const std::optional<double>& constant_rate_s,
           const std::optional<double>& one_efficiency_s);
  Mean mean() const;

 private:
  Mean sum_;
  int of_constant_rate_ = 0, of_one_efficiency_ = 0;
};

/// Means below a line of titles, of which `first` is that of the names, as text and as Markdown;
/// and as JSON, with the key `name`.
std::string means_text(const std::string& first, const std::vector<Mean>& means);
std::string means_markdown(const std::string& first, const std::vector<Mean>& means);
nlohmann::ordered_json means_json(const std::string& name, const std::vector<Mean>& means);

/// By source, then all, then what was not fitted.
std::vector<Mean> means(const std::vector<Row>& rows);

std::string text_table(const std::vector<Row>& rows);
nlohmann::ordered_json json_table(const std::vector<Row>& rows);
/// An SVG: the error of each point over the measured tokens per second and GPU.
std::string picture(const std::vector<Row>& rows);

}  // namespace shardmark::points
