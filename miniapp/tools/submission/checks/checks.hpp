// SPDX-License-Identifier: Apache-2.0
// The checks of one run, by subject. Each reads the facts and adds what does not add up to the
// findings. Each throws ReportError, or what nlohmann::json throws, for a figure that is missing or
// has another form.
#pragma once

#include <miniapp/rules/run_class.hpp>
#include <miniapp/tools/submission/checks/findings.hpp>
#include <miniapp/tools/submission/checks/run_facts.hpp>

namespace shardmark {

/// The plan, its hash, and the figures that follow from it alone. `plan` is the file plan.txt.
void check_plan(const RunFacts& facts, const std::string& plan, Findings& findings);
/// Calls, elements and bytes of each collective.
void check_collectives(const RunFacts& facts, Findings& findings);
/// The memory of each tier and of the process.
void check_memory(const RunFacts& facts, Findings& findings);
/// losses.csv: its steps, and what of it follows from the deck or stands in the report again.
void check_losses(const RunFacts& facts, Findings& findings);
/// The times of the steps, by step, phase, rank and host.
void check_step_times(const RunFacts& facts, Findings& findings);
/// The times and bandwidths of collectives, and those of copies.
void check_collective_times(const RunFacts& facts, Findings& findings);
void check_copies(const RunFacts& facts, Findings& findings);
/// How many steps and collectives were proved, and what that cost; the step that was made again.
void check_proof(const RunFacts& facts, Findings& findings);
void check_replay(const RunFacts& facts, Findings& findings);
/// The speed of matrix products and memory against what machines can do.
void check_speed(const RunFacts& facts, Findings& findings);
/// The prediction, its errors, MFU and HFU, where the run was given a machine file.
void check_prediction(const RunFacts& facts, Findings& findings);
/// What `perturb` and `congestion` did; DeepSpeed's log of the collectives.
void check_disturbances(const RunFacts& facts, Findings& findings);
void check_comms_log(const RunFacts& facts, Findings& findings);
void check_energy(const RunFacts& facts, Findings& findings);
/// Checkpoints that were written, and the storage benchmark.
void check_checkpoints(const RunFacts& facts, Findings& findings);
/// The figure of merit.
void check_figure_of_merit(const RunFacts& facts, Findings& findings);
/// The deck of a report, and the content of the file that it trained on.
UsedDeck reported_deck(const ReportReader& report);
/// The class and the division, with all reasons, and the values of `--set`. Returns those that are
/// right.
RunClass check_class(const RunFacts& facts, Findings& findings);
/// Where the run ran: its ranks, hosts and threads.
void check_environment(const RunFacts& facts, Findings& findings);
/// Which run it was and when. `now_s` is the time of the verification, in seconds since 1970.
void check_identity(const RunFacts& facts, std::int64_t now_s, Findings& findings);

}  // namespace shardmark
