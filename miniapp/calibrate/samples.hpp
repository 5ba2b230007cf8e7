// SPDX-License-Identifier: Apache-2.0
// The times that a calibration collects, and the points of a machine file that they become.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <core/plan/price/machine.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {

/// The mean of the values without the fastest tenth and the slowest two fifths: it is not moved by
/// those that other work disturbed.
double undisturbed_mean(std::vector<double> values);

/// A larger message is no faster. Where points say so, other work disturbed the smaller one, which
/// gets the time of the larger one.
void never_faster_when_larger(std::vector<TimePoint>& curve);

class Samples {
 public:
  /// One product, whatever its `count`; one launch of a kernel.
  void add(const Product& product, int busy_ranks, double seconds);
  void add(const Stream& stream, int busy_ranks, double seconds);
  std::int64_t count() const { return count_; }

  /// Appends the points to `device`.
  void fill(DeviceModel& device) const;
  /// The median over points of interquartile range / median, of points with several samples.
  double spread() const;

 private:
  using ProductKey = std::tuple<Dtype, Dtype, ProductForm, bool, int>;
  using StreamKey = std::tuple<std::string, Dtype, Dtype, int>;
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<ProductKey, std::map<Shape, std::vector<double>>> products_;
  std::map<StreamKey, std::map<std::pair<double, double>, std::vector<double>>> streams_;
  std::int64_t count_ = 0;
};

/// Replaces the times of kernels by a local fit through those of similar sizes. Many of them come
/// from few launches, and a kernel that streams takes a time that is a smooth function of its
/// sizes.
void smooth_streams(DeviceModel& device);

/// A point, and what interpolation between the other points of its table says.
struct LeftOut {
  std::string table;  // "product fp32 nt", "adamw_update fp32"
  double seconds = 0, interpolated_s = 0;
  double beyond = 1;  // how far the point lies outside of the others
  double error() const { return interpolated_s / seconds - 1; }
};

/// Leaves out each point of the device's tables in turn.
std::vector<LeftOut> leave_one_out(const DeviceModel& device);
/// The mean of |error| of those that the others surround, weighted by time.
double held_out_error(const std::vector<LeftOut>& points);

}  // namespace shardmark
