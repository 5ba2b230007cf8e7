// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/interpret/planned_runs.hpp>
#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/mixture_sizes.hpp>

namespace shardmark {

SegmentRuns planned_runs(const Program& program, const std::vector<bool>& skipped, bool resumed) {
  SegmentRuns runs(program.segments.size(), 0);
  runs[0] = 1;
  int at = resumed ? program.resumed_step : 0;
  for (const bool skip : skipped) {
    const Step& step = program.steps[static_cast<std::size_t>(at)];
    for (const SegmentRun& run : runs_of(step, skip))
      for (const int segment : run.segments) runs[static_cast<std::size_t>(segment)] += run.times;
    at = skip ? step.after_skip : step.after_update;
  }
  return runs;
}

Volume volume_of_runs(const Program& program, const SegmentRuns& runs, int group) {
  Volume sum;
  for (std::size_t s = 0; s < runs.size(); ++s)
    if (runs[s] > 0) add(sum, volume(program.segments[s], group, runs[s]));
  return sum;
}

// A rank sends rows at home, and receives at most what `away` has room for. It sends least if the
// other lanes are full.
RoutedRange routed_range(const Program& program, const SegmentRuns& runs) {
  RoutedRange range;
  if (program.expert_group < 0) return range;
  const TransformerDims dims = transformer_dims(program);
  const RowLanes lanes = row_lanes(dims);
  const std::int64_t pairs = pairs_of(dims) - size_mul(lanes.count - 1, lanes.places);
  const std::int64_t fewest = std::max<std::int64_t>(pairs, 0) * dims.hidden;
  for (std::size_t s = 0; s < runs.size(); ++s)
    for (const Event& e : program.segments[s].events) {
      if (e.routed == Routed::no) continue;
      const auto ops = program.operands_of(e);
      const auto [home, away] =
          e.routed == Routed::away ? std::pair(ops[0], ops[1]) : std::pair(ops[1], ops[0]);
      range.fewest += runs[s] * (fewest - e.elems);
      range.most += runs[s] * (std::max(home.elems, away.elems) - e.elems);
    }
  return range;
}

LinkVolume copies_of_runs(const Program& program, const SegmentRuns& runs) {
  LinkVolume sum{};
  for (std::size_t s = 0; s < runs.size(); ++s) add(sum, link_volume(program.segments[s], runs[s]));
  return sum;
}

std::vector<bool> segments_of_runs(const SegmentRuns& runs) {
  std::vector<bool> marks;
  for (const std::int64_t count : runs) marks.push_back(count > 0);
  return marks;
}

}  // namespace shardmark
