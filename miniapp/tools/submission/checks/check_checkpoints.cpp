// SPDX-License-Identifier: Apache-2.0
// The checkpoints that a run wrote, and the storage benchmark.
#include <numeric>
#include <set>

#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/checks/limits.hpp>

namespace shardmark {
namespace {

// Ranks tell each other that they are done, and rank 0 publishes the checkpoint.
constexpr double agreed_part = 0.1, agreed_each_s = 0.5;

std::vector<double> times_of(const ReportReader& report, const std::string& at,
                             Findings& findings) {
  std::vector<double> seconds = report.numbers(at);
  for (const double s : seconds) findings.is_positive({"a time of " + at, s});
  return seconds;
}

// Each time is that of the slowest rank, which need not be the same one every time.
void check_rank_times(const RunFacts& facts, const char* way, const std::vector<double>& seconds,
                      Findings& findings) {
  const std::string at = fmt::format("/checkpoints/benchmark/rank_{}_s", way);
  const std::vector<double> ranks = times_of(facts.report, at, findings);
  findings.compare<std::int64_t>(fmt::format("ranks of rank_{}_s", way), std::ssize(ranks),
                                 facts.report.integer("/world"));
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double of_ranks = std::accumulate(ranks.begin(), ranks.end(), 0.0);
  for (const double own : ranks)
    findings.at_most({fmt::format("the time of a rank in all {}s", way), own},
                     {"that of the slowest rank of each", sum});
  findings.at_most(
      {fmt::format("the time of all {}s", way), sum},
      {"that of all ranks together, with what they agree on",
       (1 + agreed_part) * of_ranks + agreed_each_s * static_cast<double>(seconds.size())});
}

void check_benchmark(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const std::string at = "/checkpoints/benchmark/";
  const std::int64_t bytes = report.integer(at + "state_bytes");
  findings.compare("bytes of a checkpoint", bytes, checkpoint_bytes(facts.planned.program));
  for (const char* way : {"write", "read"}) {
    const auto seconds = times_of(report, fmt::format("{}{}_s", at, way), findings);
    findings.compare<std::int64_t>(fmt::format("timed {}s", way), std::ssize(seconds),
                                   facts.planned.loaded.deck.checkpoint.benchmark);
    check_rank_times(facts, way, seconds, findings);
    if (seconds.size() > std::set<double>(seconds.begin(), seconds.end()).size())
      findings.refuse(fmt::format("two {}s took the same time to the nanosecond", way));
    const double rate = report.number(fmt::format("{}{}_gib_per_s", at, way));
    findings.compare_number(fmt::format("GiB/s of {}s", way), rate, mean_gib_per_s(bytes, seconds));
    findings.at_most(
        {fmt::format("GiB/s of {}s", way), rate},
        {"what the memory of all ranks carries",
         limits_of(facts).memory_gb_per_s * static_cast<double>(report.integer("/world"))});
  }
}

}  // namespace

void check_checkpoints(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const CheckpointSpec& spec = facts.planned.loaded.deck.checkpoint;
  if (spec.dir.empty()) return;
  const auto steps = std::ssize(facts.rows);
  const std::int64_t written = report.integer("/checkpoints/written");
  findings.compare("checkpoints written", written, spec.every > 0 ? steps / spec.every : 0);
  if (report.integer("/checkpoints/written_bytes") <
      written * checkpoint_bytes(facts.planned.program))
    findings.refuse(fmt::format("{} bytes in {} checkpoints are fewer than their states have",
                                report.integer("/checkpoints/written_bytes"), written));
  findings.is_time({"write_s of checkpoints", report.number("/checkpoints/write_s")});
  findings.is_time({"blocked_s of checkpoints", report.number("/checkpoints/blocked_s")});
  if (!spec.async)  // training waits for all of each write
    findings.at_most({"write_s of checkpoints", report.number("/checkpoints/write_s")},
                     {"blocked_s", report.number("/checkpoints/blocked_s")});
  if (spec.benchmark > 0) check_benchmark(facts, findings);
}

}  // namespace shardmark
