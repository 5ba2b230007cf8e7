// SPDX-License-Identifier: Apache-2.0
// A sweep as a table for people, and as CSV for scripts.
#pragma once

#include <string>
#include <vector>

#include <miniapp/tools/sweep/point.hpp>

namespace shardmark {

/// The contents of the table and the page.
struct Sweep {
  std::string deck_path, deck_name;
  std::vector<std::string> sets;  // --set of the whole sweep
  bool planned = false;           // nothing was run
  std::vector<Axis> axes;
  std::vector<int> ranks;
  std::vector<SweepPoint> points = {};    // finished ones, in the order of the grid
  std::vector<std::string> folders = {};  // by point: where its report is, below the sweep's folder
  std::size_t size = 0;                   // of the grid
};

/// CSV by RFC 4180: one line per finished point, its values first. The cell of a figure that the
/// point lacks is empty.
std::string sweep_csv(const Sweep& sweep);

/// sweep.html: the table and plots of it as one page that needs no other file. Text from decks and
/// arguments is escaped. The page is well-formed XML.
std::string sweep_html(const Sweep& sweep);

/// The table that is printed at the end, in columns.
std::string sweep_text(const Sweep& sweep);

/// The columns of predicted steps in tables for people, none without a prediction, and the cells of
/// a point, of which there are `columns`.
std::vector<std::string> prediction_head(const Sweep& sweep);
std::vector<std::string> prediction_cells(const SweepPoint& p, std::size_t columns);

/// "6 points: 4 VALID, 1 INVALID, 1 refused".
std::string sweep_summary(const Sweep& sweep);

/// The status of the first point that is neither planned nor VALID; `valid` if there is none.
ExitStatus sweep_status(const Sweep& sweep);

}  // namespace shardmark
