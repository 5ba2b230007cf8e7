// SPDX-License-Identifier: Apache-2.0
// The elements of the whole model that a rank writes into a checkpoint.
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

/// The elements that this rank writes of every state: those of its optimizer states, or an equal
/// share of them if other ranks hold the same. Elements are counted in this rank's part of the
/// model (core/plan/model/whole_model.hpp). All ranks together cover the whole model once.
std::vector<ElementRange> owned_elements(const Program& program);

/// The states that a checkpoint of a model of this type and of this optimizer stores, in the order
/// of State. Parameters in fp32 equal their master bit for bit and are not stored a second time.
std::vector<State> stored_states(Dtype model, Optimizer optimizer);
bool stores_state(Dtype model, Optimizer optimizer, State state);

/// Adds the host memory to which this rank's states are copied before they are written: one slot
/// `checkpoint.STATE` per state, alive from start-up to the end of the run, so that training can
/// continue during the write.
void add_checkpoint_staging(Program& program);

/// The name of the staging slot of a state.
std::string checkpoint_slot(State state);

}  // namespace shardmark
