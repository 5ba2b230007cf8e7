// SPDX-License-Identifier: Apache-2.0
// The checks of one run, by subject. Each reads the facts and adds what does not add up to the
// findings. Each throws ReportError, or what nlohmann::json throws, for a figure that is missing or
// has another form.
#pragma once

#include <miniapp/submission/checks/findings.hpp>
#include <miniapp/submission/checks/run_facts.hpp>

namespace shardmark {

/// The plan, its hash, and the figures that follow from it alone. `plan` is the file plan.txt.
void check_plan(const RunFacts& facts, const std::string& plan, Findings& findings);
/// Calls, elements and bytes of each collective.
void check_collectives(const RunFacts& facts, Findings& findings);
/// The memory of each tier and of the process.
void check_memory(const RunFacts& facts, Findings& findings);
/// losses.csv: its steps, and the losses and step times that the report repeats.
void check_losses(const RunFacts& facts, Findings& findings);
/// The figure of merit.
void check_figure_of_merit(const RunFacts& facts, Findings& findings);
/// Where the run ran.
void check_environment(const RunFacts& facts, Findings& findings);

}  // namespace shardmark
