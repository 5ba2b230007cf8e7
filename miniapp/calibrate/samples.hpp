// SPDX-License-Identifier: Apache-2.0
// The times that a calibration collects, and the points of a machine file that they become.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <core/plan/price/machine.hpp>
#include <core/plan/work/work.hpp>
#include <miniapp/calibrate/placements.hpp>

namespace shardmark {

/// The mean of the values without the fastest tenth and the slowest two fifths: it is not moved by
/// those that other work disturbed.
double undisturbed_mean(std::vector<double> values);

/// A larger message is no faster. Where points say so, other work disturbed the smaller one, which
/// gets the time of the larger one.
void never_faster_when_larger(std::vector<TimePoint>& curve);

class Samples {
 public:
  /// How far apart the cores of neighbouring ranks are (CoreDistance), for the samples that follow;
  /// 0: unknown.
  void cores_are_apart(double core_to_core_s);
  /// One product, whatever its `count`; one launch of a kernel.
  void add(const Product& product, int busy_ranks, double seconds);
  void add(const Stream& stream, int busy_ranks, double seconds);
  /// Collectives on the level with this number; `in_place` as in CollectiveTimes.
  void add(std::size_t level, Op op, Dtype dtype, bool in_place, std::int64_t bytes,
           const std::vector<double>& seconds);
  std::int64_t count() const { return count_; }

  /// Appends the points to `machine`, to the device and to the levels that are there; and once more
  /// for each placement if the cores moved meanwhile. A placement in which less than a quarter
  /// of the points were measured is not known.
  void fill(Machine& machine) const;
  /// The median over points of interquartile range / median, of points with several samples.
  double spread() const;

 private:
  struct Sample {
    double seconds, core_to_core_s;
  };
  using ProductKey = std::tuple<Dtype, Dtype, ProductForm, bool, int>;
  using StreamKey = std::tuple<std::string, Dtype, Dtype, int, bool>;
  using LevelKey = std::tuple<std::size_t, Op, Dtype, bool>;
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  template<class Size>
  using Table = std::map<Size, std::vector<Sample>>;

  struct Ratio;
  struct Means;
  template<class Size>
  static void add_ratio(const Table<Size>& table, const CoreRange& cores, Ratio& ratio);
  template<class Size>
  static std::map<Size, double> points(const Table<Size>& table, const CoreRange& cores,
                                       const Ratio& of_all);
  std::vector<double> distances_in(const CoreRange& cores) const;
  double known_part(const CoreRange& cores) const;
  std::vector<CoreRange> known_ranges() const;
  void fill_streams(std::vector<StreamTimes>& streams, const CoreRange& cores) const;
  void fill_levels(std::vector<NetworkLevel>& levels, const CoreRange& cores) const;

  std::map<ProductKey, Table<Shape>> products_;
  std::map<StreamKey, Table<std::pair<double, double>>> streams_;
  std::map<LevelKey, Table<double>> collectives_;
  std::vector<double> distances_;  // all that were measured
  double core_to_core_s_ = 0;
  std::int64_t count_ = 0;
};

/// Replaces the times of kernels by a local fit through those of similar sizes. Many of them come
/// from few launches, and a kernel that streams takes a time that is a smooth function of its
/// sizes.
void smooth_streams(std::vector<StreamTimes>& streams);

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
