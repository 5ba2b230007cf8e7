// SPDX-License-Identifier: Apache-2.0
// The buffers that the schedule `paper` works with: which there are at a stage, and how large.
#pragma once

#include <vector>

#include <core/plan/plan.hpp>
#include <core/plan/writer.hpp>

namespace shardmark {

inline constexpr int no_slot = -1;

/// The slots that belong to one unit; `no_slot` where the stage or the model has no such buffer.
struct UnitSlots {
  int param = no_slot, grad = no_slot, momentum = no_slot, variance = no_slot;
  int gathered = no_slot;  // stage 3: the unit's full parameters
  int bucket = no_slot;    // stages 2, 3: the unit's full gradient, before it is reduced
  int part = no_slot;      // stages 2, 3: this rank's reduced share, before it is accumulated
  int x_in = no_slot;      // residual stream that enters the unit
  int saved = no_slot;     // what its forward saves for its backward
  int workspace_forward = no_slot, workspace_backward = no_slot;
};

struct PaperSlots {
  std::vector<UnitSlots> units;
  int tokens = no_slot, dx = no_slot, loss = no_slot;  // of training
  int sum = no_slot, clip = no_slot;                   // sum of squares; norm and coefficient
  int staging = no_slot;                               // scratch of the collectives
};

/// Declares them all. `train`: with activations, else states alone.
PaperSlots declare_paper_slots(PlanWriter& writer, const Program& program, bool train,
                               const Profile& profile);

}  // namespace shardmark
