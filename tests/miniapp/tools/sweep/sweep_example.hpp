// SPDX-License-Identifier: Apache-2.0
// A sweep with points of every kind, made by hand.
#pragma once

#include <miniapp/tools/sweep/store.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::sweep_example {

using Values = std::vector<std::string>;

inline SweepPoint planned(const GridPoint& at, int stage = 2) {
  const Program p = program(gpt2_deck(stage), at.ranks, 0);
  SweepPoint point{.at = at};
  point.plan = plan_figures(gpt2_deck(stage), p, {1 << 30, std::nullopt});
  return point;
}

inline SweepPoint ran(const GridPoint& at, int stage = 2) {
  SweepPoint point = planned(at, stage);
  point.state = SweepPoint::State::valid;
  point.run.emplace();
  double figure = 0.25;
  for (const NamedReal& n : run_reals) *point.run.*n.of = figure++;
  for (const NamedCount& n : run_counts) *point.run.*n.of = static_cast<std::int64_t>(++figure);
  point.run->measured = {7, 8};
  return point;
}

inline SweepPoint refused(const GridPoint& at) {
  SweepPoint point{.at = at};
  point.state = SweepPoint::State::refused;
  point.status = ExitStatus::memory;
  point.reason = "d.json: it does not fit, \"really\"\nnot <b>at</b> all";
  return point;
}

inline Sweep example() {
  Sweep s;
  s.deck_path = "d.json", s.deck_name = "d<&>";
  s.axes = {{"x.reduce_bucket_size", {"1e6", "1e7", "1e8"}}, {"x.stage", {"0", "2"}}};
  s.ranks = {1, 2};
  for (const GridPoint& at : points_of(s.axes, s.ranks)) {
    s.points.push_back(at.ranks == 1 ? refused(at) : ran(at, std::stoi(at.values[1].second)));
    s.folders.push_back("point-" + std::to_string(s.points.size()));
  }
  s.points.back().state = SweepPoint::State::invalid;
  s.points.back().status = ExitStatus::invalid;
  s.size = s.points.size();
  return s;
}

}  // namespace shardmark::test::sweep_example
