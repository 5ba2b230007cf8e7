// SPDX-License-Identifier: Apache-2.0
// What a predictor has to beat: rules that need no model at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ci/points.d/point.hpp>

namespace shardmark::points {

/// The generation of the point's GPU: "hopper" for example, or the GPU's name if none is known.
std::string generation_of(const Point& point);

/// The part of the GPU's peak that the point reaches, recomputation included where the source tells
/// it.
double part_of_peak(const Point& point);

/// Tokens per second and GPU of a step of `seconds`.
double rate_of(const Point& point, double seconds);

/// "The rate per GPU stays what it was on the fewest GPUs": the time that this gives for
/// `points[i]`, from the point with the same source, model and GPU, a micro-batch within 25 %, and
/// the fewest GPUs. Empty: the point is itself that one, or it is alone.
std::optional<double> constant_rate_seconds(const std::vector<Point>& points, std::size_t i);

/// "One efficiency for all shapes": the time of `points[i]` if all models reached the part of the
/// peak that the point with hidden 4096 and sequence 2048 reaches on the fewest GPUs of the same
/// kind and source.
std::optional<double> one_efficiency_seconds(const std::vector<Point>& points, std::size_t i);

/// The point that `constant_rate_seconds` starts from.
std::optional<std::size_t> fewest_gpus(const std::vector<Point>& points, std::size_t i);

}  // namespace shardmark::points
