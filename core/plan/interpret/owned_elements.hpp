// SPDX-License-Identifier: Apache-2.0
// What a rank writes into a checkpoint, in elements of the whole model.
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// Elements [first, first + elems) of the model.
struct ElementRange {
  std::int64_t first = 0, elems = 0;
  bool operator==(const ElementRange&) const = default;
};

/// The elements that this rank writes of every state. Those of its optimizer states; where others
/// hold the same, an equal share. Over all ranks they cover the model once.
std::vector<ElementRange> owned_elements(const Program& program);

/// The states that a checkpoint of a model of this type stores, in the order of State: fp32
/// parameters are their master, bit for bit, and are not stored a second time.
std::vector<State> stored_states(Dtype model);
bool stores_state(Dtype model, State state);

/// Adds the host memory to which this rank's states are copied before they are written: one slot
/// `checkpoint.STATE` per state, alive from start-up to the end of the run, so that training can
/// continue during the write.
void add_checkpoint_staging(Program& program);

/// Name of the staging slot of a state.
std::string checkpoint_slot(State state);

}  // namespace shardmark
