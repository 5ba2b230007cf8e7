// SPDX-License-Identifier: Apache-2.0
// What the sections `perturb` and `congestion` did, and DeepSpeed's log of the collectives.
#include <map>

#include <miniapp/measure/deepspeed_comms_log.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {

void check_disturbances(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const double span_s = report.number("/step_seconds/timed_total");
  if (report.has("/perturb")) {
    const double injected_s = report.number("/perturb/injected_seconds");
    findings.is_time({"the time that perturb injected", injected_s});
    findings.at_most({"the time that perturb injected, in s,", injected_s},
                     {"the timed span", span_s});
    if (report.at("/perturb/amplification").is_number())
      findings.compare_number("amplification", report.number("/perturb/amplification"),
                              report.number("/perturb/lost_seconds") / injected_s);
  }
  if (report.has("/congestion")) {
    const double bytes = report.number("/congestion/moved_bytes");
    findings.is_time({"the bytes of the congestion", bytes});
    findings.at_most(
        {"GB/s of the congestion", report.number("/congestion/gb_per_s")},
        {"its bytes over the steps of rank 0", bytes / report.number("/energy/seconds") * 1e-9});
  }
}

void check_comms_log(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  if (!report.has("/comms_logger")) return;
  const DsLogSpec& spec = facts.planned.loaded.output.deepspeed;
  std::map<std::string, std::int64_t> calls;
  for (const auto& [op, traffic] : volume_of_runs(facts.planned.program, facts.runs))
    calls[deepspeed_name(op)] += traffic.calls;
  for (const auto& op : report.at("/comms_logger").items()) {
    std::int64_t count = 0;
    for (const auto& row : op.value().items()) {
      const ReportReader of(row.value());
      count += of.integer("/count");
      const std::string name = fmt::format("comms_logger: {} of {} bytes", op.key(), row.key());
      findings.compare(name, row.key(), std::to_string(of.integer("/msg_size_bytes")));
      for (const char* figure : {"/total_latency_ms", "/avg_latency_ms", "/tput_avg_gbps",
                                 "/busbw_avg_gbps", "/nccl_tests_busbw_gb_per_s"})
        findings.is_time({name + ": " + (figure + 1), of.number(figure)});
    }
    if (spec.comms_all)
      findings.compare("comms_logger: calls of " + op.key(), count, calls[op.key()]);
  }
}

}  // namespace shardmark
