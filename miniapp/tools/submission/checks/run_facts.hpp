// SPDX-License-Identifier: Apache-2.0
// What the checks of one run read: the report, the rows of losses.csv, and the plan made again.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <core/plan/interpret/planned_runs.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/prove/replay_result.hpp>
#include <miniapp/tools/submission/read/replan.hpp>
#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

/// The facts of one run. The checks change none of them.
struct RunFacts {
  /// `json` outlives the facts.
  explicit RunFacts(const nlohmann::json& json) : report(json) {}

  ReportReader report;
  std::vector<LossRow> rows;  // of losses.csv
  Replanned planned;
  SegmentRuns runs;        // how often each segment of the plan had to run
  SegmentRuns timed_runs;  // the same, in the timed steps alone

  /// Whether the kernels ran on the processors of the hosts. Throws ReportError.
  bool on_host() const;
  /// Whether the run ended before its last step. `verify` refuses such a run for that, and not for
  /// the steps that it then lacks. Throws ReportError.
  bool was_stopped() const { return report.has("/stopped"); }
  std::size_t warmup() const;
  /// The rows of the timed steps.
  std::span<const LossRow> timed() const { return std::span(rows).subspan(warmup()); }
};

/// The sum of the three phases of a step, whose seconds are the numbers below `at`. Throws
/// ReportError.
inline double sum_of_phases(const ReportReader& report, const std::string& at) {
  return report.number(at + "/forward") + report.number(at + "/backward") +
         report.number(at + "/optimizer");
}

/// Reads losses.csv and makes the plan again. Throws ReportError, and what `replan` throws.
void read_facts(RunFacts& facts, const std::string& losses);

/// What a report says of its proof of the collectives. Throws ReportError.
ProofResult reported_proof(const ReportReader& report);

}  // namespace shardmark
