// SPDX-License-Identifier: Apache-2.0
// Between a program's states and a checkpoint's: which elements this rank writes, where they lie,
// and what it needs back. Nothing here depends on stage or schedule: the pieces of Program::states
// say it all.
#pragma once

#include <vector>

#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <miniapp/executor.hpp>

namespace shardmark {

/// The elements that this rank writes of every state. Those of its optimizer states; where all
/// ranks have all of them, an equal share. Over all ranks they cover the model once.
std::vector<ElementRange> owned_elements(const Program& program);

/// Where they lie, of each state that is stored. Between two steps.
std::vector<StateSource> state_sources(const Program& program, const Executor& executor,
                                       const std::vector<ElementRange>& owned);

/// All that this rank holds of any state, to be read into its place.
std::vector<WantedElements> wanted_states(const Program& program, const Executor& executor);

}  // namespace shardmark
