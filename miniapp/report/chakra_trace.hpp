// SPDX-License-Identifier: Apache-2.0
// One step of one rank as a Chakra execution trace: what the rank computes, copies and
// communicates, and what each of these waits for. docs/output.md lists nodes and attributes.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/plan.hpp>
#include <core/plan/price/price.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

/// The steady step of `program`, without times. Throws DeckError if the step has more than
/// `most_chakra_nodes` events.
std::string chakra_trace(const Program& program, const std::string& deck_name);
/// The same with durations from `priced`, a price of `program` that kept its events.
std::string chakra_trace(const Program& program, const std::string& deck_name,
                         const PricedStep& priced);
/// A step that was measured, with starts and durations.
std::string chakra_trace(const Program& program, const std::string& deck_name,
                         const StepTrace& measured);

inline constexpr std::int64_t most_chakra_nodes = 4'000'000;

/// The ranks of each group of `program` below the world, by the number that nodes have in
/// `pg_name`: {"1": [0, 1], "5": [0, 2]}. Objects of different ranks agree where they overlap.
nlohmann::ordered_json chakra_groups(const Program& program);

/// The file for chakra_groups() beside the traces `name` ("step.et"): "step.groups.json".
std::string chakra_groups_file(const std::string& name);

}  // namespace shardmark
