// SPDX-License-Identifier: Apache-2.0
// A sweep as a table: for people, and as CSV for scripts.
#pragma once

#include <string>
#include <vector>

#include <miniapp/sweep/point.hpp>

namespace shardmark {

/// All that the table and the page are made from.
struct Sweep {
  std::string deck_path, deck_name;
  std::vector<std::string> sets;  // --set of the whole sweep
  bool planned = false;           // nothing was run
  std::vector<Axis> axes;
  std::vector<int> ranks;
  std::vector<SweepPoint> points;    // finished ones, in the grid's order
  std::vector<std::string> folders;  // by point: where its report is, below the sweep's folder
  std::size_t size = 0;              // of the grid
};

/// RFC 4180: a line a finished point, its values first; cells of figures that it has not are empty.
std::string sweep_csv(const Sweep& sweep);

/// What is printed at the end, in columns.
std::string sweep_text(const Sweep& sweep);

/// "6 points: 4 VALID, 1 INVALID, 1 refused".
std::string sweep_summary(const Sweep& sweep);

/// Status of the first point that did not end well; `valid` where all did.
ExitStatus sweep_status(const Sweep& sweep);

}  // namespace shardmark
