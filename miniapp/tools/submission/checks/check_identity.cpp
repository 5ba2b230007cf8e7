// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/read/run_times.hpp>

namespace shardmark {
namespace {

// Clocks of machines differ, by more than a network's time service allows where there is none.
constexpr std::int64_t clock_slack_s = 3600;
// Whole seconds are printed, and a time service may set the clock during a run; the check `clocks`
// allows that much of the timed span.
constexpr double printed_s = 2, set_part = 0.005;

}  // namespace

void check_identity(const RunFacts& facts, std::int64_t now_s, Findings& findings) {
  const std::string id = facts.report.text("/run/id");
  if (id.size() != 16 || id.find_first_not_of("0123456789abcdef") != std::string::npos)
    findings.refuse("run: id is not the random number of a run: 16 hexadecimal digits");
  const RunTimes times = run_times(facts.report);
  if (times.ended_s > now_s + clock_slack_s)
    findings.refuse(fmt::format("run: it ended at {}, which is in the future", times.ended));
  const Named span{fmt::format("the time from {} to {}", times.started, times.ended),
                   static_cast<double>(times.ended_s - times.started_s)};
  const auto lies_within = [&](const char* what, double seconds) {
    findings.at_most({what, (1 - set_part) * seconds - printed_s}, span);
  };
  double steps_s = 0;
  for (const LossRow& row : facts.rows) steps_s += row.seconds;
  lies_within("the time of all steps, in s,", steps_s);
  lies_within("timed_total, in s,", facts.report.number("/step_seconds/timed_total"));
  if (facts.report.has("/checkpoints/benchmark")) {
    double transfers_s = 0;
    for (const char* way : {"/checkpoints/benchmark/write_s", "/checkpoints/benchmark/read_s"})
      for (const nlohmann::json& s : facts.report.at(way)) transfers_s += s.get<double>();
    lies_within("the time of all steps, writes and reads, in s,", steps_s + transfers_s);
  }
}

}  // namespace shardmark
