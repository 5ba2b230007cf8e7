// SPDX-License-Identifier: Apache-2.0
// What measured points tell about each other: how well the others foretell each one, and how far
// the noise of each is averaged with that of its neighbours.
// How far ranks end apart that begin the same kernels together, by the length of their work.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// Replaces the times of each table by a local fit through those of similar sizes (Scatter), since
/// many of them come from few launches. The fit reaches as far as makes it best at foretelling
/// points that are left out: on a quiet machine not at all, so that a shape with a speed of its own
/// keeps it.
void smooth(std::vector<ProductTimes>& products);
void smooth(std::vector<StreamTimes>& streams);

/// A point, and what the others of its table say about it.
struct LeftOut {
  std::string table;  // "products fp32 nt", "adamw_update fp32"
  double seconds = 0, interpolated_s = 0;
  double beyond = 1;  // how far the point lies outside of the others
  double error() const { return interpolated_s / seconds - 1; }
};

/// Leaves out each point of the device's tables in turn, which must not be smoothed yet.
std::vector<LeftOut> leave_one_out(const DeviceModel& device);
/// The mean of |error| of those that the others surround, weighted by time.
double held_out_error(const std::vector<LeftOut>& points);

class SkewSamples {
 public:
  /// `seconds`: of the same kernels on each of `ranks` ranks at the same time, rank by rank. Each
  /// run of 1, 2, 4, … successive kernels is a sample. Nothing is added for one rank.
  void add(std::span<const double> seconds, int ranks);
  /// The median skew, as predictions are of median steps, by powers of 2 of the mean time; lengths
  /// with few samples are left out.
  RankSkew result() const;

 private:
  struct Samples {
    double work_s = 0;  // the sum of all
    std::vector<double> skews_s;
  };
  std::map<int, Samples> by_length_;  // by log2 of the seconds
  int ranks_ = 0;
};

}  // namespace shardmark
