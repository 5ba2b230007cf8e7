// SPDX-License-Identifier: Apache-2.0
// The buffers of the schedule `paper`: which exist at a stage, and how large they are.
#pragma once

#include <vector>

#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <core/plan/write/rank_groups.hpp>
#include <core/plan/write/staged_collectives.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// The slots of one unit; `no_slot` if the stage or the model has no such buffer.
struct UnitSlots {
  int param = no_slot, grad = no_slot;
  StateSlots states;
  int gathered = no_slot;  // stage 3: the unit's full parameters
  int bucket = no_slot;    // the unit's full gradient of one micro-batch; at stages 0 and 1 only
                           // if `grad`, the sum over micro-batches, has another type
  int part = no_slot;      // stages 2, 3: this rank's reduced share before it is accumulated
};

/// The slots of all units, and those that exist once.
struct PaperSlots {
  std::vector<UnitSlots> units;
  int sum = no_slot, clip = no_slot;  // sum of squares; norm and coefficient
  int overflow = no_slot;             // the flag, if overflows are looked for
};

/// Declares all of them, and the scratch of `collectives`.
PaperSlots declare_paper_slots(PlanWriter& writer, const Program& program, Optimizer optimizer,
                               StagedCollectives& collectives, const ShardGroups& groups);

}  // namespace shardmark
