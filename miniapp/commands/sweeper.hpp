// SPDX-License-Identifier: Apache-2.0
// What a sweep that plans and one that runs have in common: their points, which of them are done,
// and the table.
#pragma once

#include <string>
#include <vector>

#include <io/files/durable_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/tools/sweep/store.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {

/// The values of --set at a point, the sweep's own first.
std::vector<std::string> sets_of(const SweepArguments& arguments, const GridPoint& at);

/// The state of a sweep in one process. Throws DeckError and IoError.
class Sweeper {
 public:
  Sweeper(const SweepArguments& arguments, std::vector<int> ranks);

  /// The points of this call, done or not.
  const std::vector<GridPoint>& points() const { return own_; }
  bool done(const GridPoint& at) const { return store_.find(at) != nullptr; }
  std::string folder_of(const GridPoint& at) const { return store_.folder_of(at); }

  /// Prints what the sweep is going to do.
  void begin() const;
  /// Stores point `i` of points(), and prints a line if it says more than the table will.
  void keep(std::size_t i, const SweepPoint& point);
  /// Writes and prints the table, and returns the status of the sweep.
  ExitStatus end();

 private:
  std::string assumptions() const;
  Sweep table() const;
  void write_table();

  const SweepArguments& arguments_;
  std::vector<Axis> axes_;
  FolderLock lock_;  // before the store reads, since another sweep may be writing
  PointStore store_;
  std::vector<int> ranks_;
  std::vector<GridPoint> own_, all_;
  std::int64_t table_ns_ = 0;
};

/// Collective over MPI_COMM_WORLD: runs each point that is not done, and returns the status of the
/// sweep. Throws DeckError.
ExitStatus run_sweep(const SweepArguments& arguments);

}  // namespace shardmark
