// SPDX-License-Identifier: Apache-2.0
#include <core/plan/interpret/footprint.hpp>
#include <miniapp/submission/checks/checks.hpp>

namespace shardmark {

void check_memory(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& program = facts.planned.program;
  const auto allocated = allocated_bytes(program);
  const Footprint live = footprint(program, segments_of_runs(facts.runs));
  for (const Tier t : {Tier::device, Tier::host}) {
    const std::string at = fmt::format("/memory/{}/", to_string(t));
    for (const char* side : {"predicted_peak", "measured_peak"})
      findings.compare(fmt::format("{} of {} memory", side, to_string(t)),
                       report.integer(at + side), allocated[t]);
    findings.compare(fmt::format("live_peak of {} memory", to_string(t)),
                     report.integer(at + "live_peak"), live.tiers[t].peak_bytes);
  }
  if (report.integer("/memory/system/excess") > report.integer("/memory/system/allowance"))
    findings.refuse("memory of the system: the excess is larger than the allowance");
}

}  // namespace shardmark
