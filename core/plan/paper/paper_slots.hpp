// SPDX-License-Identifier: Apache-2.0
// The buffers that the schedule `paper` works with: which there are at a stage, and how large.
#pragma once

#include <vector>

#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/rank_groups.hpp>

namespace shardmark {

/// The slots that belong to one unit; `no_slot` where the stage or the model has no such buffer.
struct UnitSlots {
  int param = no_slot, grad = no_slot, momentum = no_slot, variance = no_slot;
  int master = no_slot;    // the parameters' own slot where they are fp32
  int gathered = no_slot;  // stage 3: the unit's full parameters
  int bucket = no_slot;    // the unit's full gradient of one micro-batch; at stages 0 and 1 only
                           // where `grad`, that of all, is of another type
  int part = no_slot;      // stages 2, 3: this rank's reduced share, before it is accumulated
};

struct PaperSlots {
  std::vector<UnitSlots> units;
  int sum = no_slot, clip = no_slot;  // sum of squares; norm and coefficient
  int overflow = no_slot;             // the flag, where one is looked at
  int staging = no_slot;              // scratch of the collectives
};

/// Declares them all.
PaperSlots declare_paper_slots(PlanWriter& writer, const Program& program, const Profile& profile,
                               const ShardGroups& groups);

}  // namespace shardmark
