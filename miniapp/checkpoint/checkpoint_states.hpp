// SPDX-License-Identifier: Apache-2.0
// Between a program's states and a checkpoint's: which elements this rank writes, where they lie,
// and what it needs back. Nothing here depends on stage or schedule: the pieces of Program::states
// say it all.
#pragma once

#include <vector>

#include <core/plan/interpret/owned_elements.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <miniapp/execute/executor.hpp>

namespace shardmark {

/// Where the elements that this rank writes lie, of each state that is stored. Between two steps.
std::vector<StateSource> state_sources(const Program& program, const Executor& executor,
                                       const std::vector<ElementRange>& owned);

/// The same of what the plan has set aside for asynchronous writes: one slice a state.
std::vector<StateSource> staging_slots(const Program& program, const Executor& executor);
void copy_aside(const std::vector<StateSource>& sources, const std::vector<StateSource>& staging);

/// All that this rank holds of any state, to be read into its place.
std::vector<WantedElements> wanted_states(const Program& program, const Executor& executor);

}  // namespace shardmark
