// SPDX-License-Identifier: Apache-2.0
// The times that a calibration collects, and the points of a machine file that they become.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/price/machine.hpp>
#include <core/plan/work/work.hpp>
#include <miniapp/tools/calibrate/placements.hpp>

namespace shardmark {

/// The mean of those that are at most twice the median. What disturbs each step a little belongs to
/// it, since the median of steps has it too: a step is the sum of many times. A rank that lost its
/// core for a while does not.
double mean_without_outliers(std::vector<double> values);

/// Adds the time of a size that is larger than all others of the model.
void add_point(CopyModel& model, double bytes, double seconds);
/// Lets no larger copy be faster than a smaller one, and sets the latency and the bandwidth by the
/// points.
void describe_copies(CopyModel& model);

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
  /// What collectives of one second on this level take from computation beside them, in seconds.
  void add_share_of_compute(std::size_t level, double share);
  /// The times of copies of this size.
  void add(Direction direction, std::int64_t bytes, const std::vector<double>& seconds);
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
  void fill_copies(Machine& machine) const;

  std::map<ProductKey, Table<Shape>> products_;
  std::map<StreamKey, Table<std::pair<double, double>>> streams_;
  std::map<LevelKey, Table<double>> collectives_;
  std::map<std::size_t, std::vector<double>> shares_of_compute_;  // by level
  std::map<Direction, Table<double>> copies_;
  std::vector<double> distances_;  // all that were measured
  double core_to_core_s_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace shardmark
