// SPDX-License-Identifier: Apache-2.0
// The finished points of a sweep on the disk: one folder per point, with point.json and its report.
// So a sweep that was stopped can continue, and a grid can grow. Only one process uses it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <miniapp/tools/sweep/point.hpp>

namespace shardmark {

/// The finished points of one sweep.
class PointStore {
 public:
  /// `identity` represents what all points share: deck, version, planned or run. Reads the points
  /// in `folder`, which need not exist. Throws IoError.
  PointStore(std::string folder, std::string identity);

  /// The finished point with this identity; null if there is none.
  const SweepPoint* find(const GridPoint& at) const;
  /// The rank counts, other than those of `grid`, of finished points whose values are in `axes`.
  std::vector<int> other_ranks(const std::vector<Axis>& axes, const std::vector<int>& ranks) const;
  /// One line for each kind of files that cannot be used and of points outside the grid.
  std::vector<std::string> notes(const std::vector<GridPoint>& grid) const;

  /// The folder for a point's report.
  std::string folder_of(const GridPoint& at) const;
  /// The same, below the sweep's own folder.
  std::string name_of(const GridPoint& at) const;
  /// Stores a finished point, completely or not at all. Throws IoError.
  void keep(const SweepPoint& point);

 private:
  void read(const std::string& file);

  std::string folder_, identity_;
  std::map<std::string, SweepPoint> points_;  // by GridPoint::name()
  std::size_t foreign_ = 0;                   // of another identity
  std::vector<std::string> damaged_;
};

}  // namespace shardmark
