// SPDX-License-Identifier: Apache-2.0
#include <miniapp/submission/checks/checks.hpp>

namespace shardmark {

void check_environment(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  findings.compare<std::int64_t>("ranks listed",
                                 static_cast<std::int64_t>(report.at("/ranks").size()),
                                 report.integer("/world"));
  for (const auto& item : report.at("/environment").items())
    if (item.key() == "SHARDMARK_FAULT")
      findings.refuse("SHARDMARK_FAULT was set: the run was broken on purpose");
}

}  // namespace shardmark
