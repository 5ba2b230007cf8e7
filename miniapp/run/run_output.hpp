// SPDX-License-Identifier: Apache-2.0
// What a run prints and writes. Rank 0 writes; errors are known to all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <io/files/output_folder.hpp>
#include <miniapp/execute/step_trace.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/run/run_plan.hpp>

namespace shardmark {

/// Announces a run, and at its end prints the report and writes its files.
class RunOutput {
 public:
  /// Collective. Proves that the output folder can be written. All must outlive it. Throws
  /// AgreedError.
  RunOutput(const RunArguments& arguments, const RunPlan& run, const World& world);

  /// Whether this rank prints.
  bool prints() const { return prints_; }
  /// Prints what is about to run. `notice` says where the run goes on from; may be empty.
  void announce(const std::string& notice) const;
  /// Collective. Prints the report and writes the output folder; `steps` are those that the deck's
  /// `trace` asks for. Throws AgreedError.
  void report(const Result& result, const std::vector<StepTrace>& steps,
              std::int64_t clock_offset_ns) const;

 private:
  void write_chakra(const std::vector<StepTrace>& steps) const;
  void write_trace(const std::vector<StepTrace>& steps, std::int64_t clock_offset_ns) const;

  const RunPlan& run_;
  const World& world_;
  bool prints_;
  std::optional<OutputFolder> folder_;  // on rank 0
};

}  // namespace shardmark
