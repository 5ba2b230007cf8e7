// SPDX-License-Identifier: Apache-2.0
// What back-ends have to move for a run, which is compared with what they counted.
#pragma once

#include <comm/moved_volume.hpp>
#include <core/plan/interpret/planned_runs.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// Of the collectives of `runs` in one group, on the program's rank. In terms of S, the size of the
/// whole array: an all_gather sends S/n and receives S, a reduce_scatter sends S and receives S/n,
/// an all_reduce sends and receives S; only the root of a reduce receives, and only the root of a
/// broadcast sends.
MovedVolume moved_by_runs(const Program& program, const SegmentRuns& runs, int group);

}  // namespace shardmark
