// SPDX-License-Identifier: Apache-2.0
// Why a run does not fit in memory: the tier, the event at which it would die, how much is missing,
// and what would help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/interpret/footprint.hpp>

namespace shardmark {

/// Changes of a deck in words, as changes_that_fit gives them; empty: they were not looked for.
using FittingChanges = std::optional<std::vector<std::string>>;

/// The text of the refusal, or nothing if the program fits. Budgets are per rank. If the host's
/// memory is too small, the text also says what the `ranks_per_node` ranks of a node need together.
/// `fitting` are the changes that changes_that_fit found; the text names no others of the deck's
/// keys. Without it nobody has looked for changes, and the text says where to ask for one.
std::optional<std::string> over_budget(const Program& program, const Budgets& budgets,
                                       int ranks_per_node = 1, const FittingChanges& fitting = {});

/// Returns the text of the refusal if device and host tier share one memory, of which each rank has
/// `bytes`. Returns nothing if the program fits or does not use the host tier.
std::optional<std::string> over_shared_budget(const Program& program, std::int64_t bytes,
                                              int ranks_per_node,
                                              const FittingChanges& fitting = {});

/// The refusal of a run whose model states alone do not fit, or nothing. `start_up` is a program of
/// Extent::start_up: the states that start-up leaves alive are a lower bound of what the run needs.
/// `shared`: the bytes of device and host together if they are one memory.
std::optional<std::string> states_over_budget(const Program& start_up, const Budgets& budgets,
                                              std::optional<std::int64_t> shared,
                                              int ranks_per_node,
                                              const FittingChanges& fitting = {});

}  // namespace shardmark
