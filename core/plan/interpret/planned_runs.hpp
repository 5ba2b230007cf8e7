// SPDX-License-Identifier: Apache-2.0
// What a whole run has to do, from its steps and the program alone: how often each segment runs,
// and what its collectives and copies carry. A run is compared with these figures, so nothing here
// may come from what the run itself has counted.
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {

/// How often each segment of a program runs, by index in Program::segments.
using SegmentRuns = std::vector<std::int64_t>;

/// Counts the runs of each segment in a run that consists of the start-up and one optimizer step
/// per entry of `skipped`. An entry says whether that step was skipped because gradients
/// overflowed. `resumed` says whether the run goes on from a checkpoint. Pure.
SegmentRuns planned_runs(const Program& program, const std::vector<bool>& skipped,
                         bool resumed = false);

/// The collectives of `runs`, of one group or of all. Operations that do not occur are absent.
Volume volume_of_runs(const Program& program, const SegmentRuns& runs, int group = all_groups);
/// By how many elements the routed all_to_alls of `runs` (Event::routed) may differ from the
/// plan's; both are 0 if none is routed.
struct RoutedRange {
  std::int64_t fewest = 0, most = 0;
};
RoutedRange routed_range(const Program& program, const SegmentRuns& runs);
/// The copies between tiers of `runs`.
LinkVolume copies_of_runs(const Program& program, const SegmentRuns& runs);
/// Which segments run at all, for footprint().
std::vector<bool> segments_of_runs(const SegmentRuns& runs);

}  // namespace shardmark
