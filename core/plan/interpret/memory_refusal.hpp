// SPDX-License-Identifier: Apache-2.0
// Why a run does not fit in memory: the tier, the event at which it would die, how much is missing,
// and what would help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <core/plan/interpret/footprint.hpp>

namespace shardmark {

/// The whole refusal, or nothing where the program fits. Budgets are this rank's. Where the host's
/// memory is short, the refusal also says what the `ranks_per_node` ranks of a node need together.
std::optional<std::string> over_budget(const Program& program, const Budgets& budgets,
                                       int ranks_per_node = 1);

/// The same where both tiers lie in one memory, of which a rank has `bytes`, and the program uses
/// both tiers.
std::optional<std::string> over_shared_budget(const Program& program, std::int64_t bytes,
                                              int ranks_per_node);

/// The refusal of a run whose model states alone do not fit, from its start-up alone
/// (Extent::start_up): what start-up leaves alive is a lower bound of what the run needs. `shared`:
/// what device and host have together, where they are one memory.
std::optional<std::string> states_over_budget(const Program& start_up, const Budgets& budgets,
                                              std::optional<std::int64_t> shared,
                                              int ranks_per_node);

}  // namespace shardmark
