// SPDX-License-Identifier: Apache-2.0
// Maps a program's states to those of a checkpoint: which elements this rank writes, where they are
// in memory, and which it reads back. All of it follows from Program::states, so it depends neither
// on the stage nor on the schedule.
#pragma once

#include <vector>

#include <core/plan/interpret/owned_elements.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <miniapp/execute/executor.hpp>

namespace shardmark {

/// Ranges of elements as a checkpoint counts them, which has no frozen parameters.
std::vector<ElementRange> among_stored(const ModelShape& model,
                                       const std::vector<ElementRange>& ranges);

/// For each state that is stored, where in memory the elements are that this rank writes. To be
/// called between two steps.
std::vector<StateSource> state_sources(const Program& program, const Executor& executor,
                                       const std::vector<ElementRange>& owned);

/// The same for the slots that the plan sets aside for asynchronous writes: one slice per state.
std::vector<StateSource> staging_slots(const Program& program, const Executor& executor);
void copy_aside(const std::vector<StateSource>& sources, const std::vector<StateSource>& staging);

/// All elements that this rank holds of each state, but for frozen parameters, for a read into
/// their places.
std::vector<WantedElements> wanted_states(const Program& program, const Executor& executor);

}  // namespace shardmark
