// SPDX-License-Identifier: Apache-2.0
// What a sweep has finished, on the disk: a folder a point, with point.json beside its report. So a
// sweep that was stopped goes on, and a grid can grow. One process uses it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <miniapp/sweep/point.hpp>

namespace shardmark {

/// The finished points of one sweep.
class PointStore {
 public:
  /// `identity` stands for all that points have in common: deck, version, planned or run. Reads
  /// what is in `folder`, which need not be there. Throws IoError.
  PointStore(std::string folder, std::string identity);

  /// A finished point of this identity; null: none.
  const SweepPoint* find(const GridPoint& at) const;
  /// Rank counts, besides those of `grid`, of finished points that have values of `axes`.
  std::vector<int> other_ranks(const std::vector<Axis>& axes, const std::vector<int>& ranks) const;
  /// One line each: files that cannot be used, points that are no part of the grid. Empty: none.
  std::vector<std::string> notes(const std::vector<GridPoint>& grid) const;

  /// Where a point's report goes.
  std::string folder_of(const GridPoint& at) const;
  /// The same, below the sweep's own folder.
  std::string name_of(const GridPoint& at) const;
  /// Keeps a finished point: whole, or not at all. Throws IoError.
  void keep(const SweepPoint& point);

 private:
  void read(const std::string& file);

  std::string folder_, identity_;
  std::map<std::string, SweepPoint> points_;  // by GridPoint::name()
  std::size_t foreign_ = 0;                   // of another identity
  std::vector<std::string> damaged_;
};

}  // namespace shardmark
