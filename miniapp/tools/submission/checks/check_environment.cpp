// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

namespace {

// One rank of the list: its place in it, its process, and how many threads it has.
void check_rank(const ReportReader& rank, std::int64_t place,
                std::set<std::pair<std::string, std::int64_t>>& processes, Findings& findings) {
  findings.compare("number of a rank", rank.integer("/rank"), place);
  const std::string host = rank.text("/host");
  if (host.empty() || rank.text("/processor").empty() || rank.text("/cores").empty())
    findings.refuse(fmt::format("rank {} has no host, processor or cores", place));
  if (!processes.insert({host, rank.integer("/pid")}).second)
    findings.refuse(fmt::format("rank {} is the same process as another rank: {} on {}", place,
                                rank.integer("/pid"), host));
  if (rank.integer("/kernel_threads") < 1 || rank.integer("/matmul_threads") < 1)
    findings.refuse(fmt::format("rank {} has no thread", place));
}

void refuse_faults(const nlohmann::json& variables, Findings& findings) {
  if (variables.contains("SHARDMARK_FAULT"))
    findings.refuse("SHARDMARK_FAULT was set: the run was broken on purpose");
}

// Clocks of machines without a time service differ by more than such a service allows.
constexpr std::int64_t clock_slack_s = 3600;
// Whole seconds are printed, and a time service may set the clock during a run; the check `clocks`
// allows that much of the timed span.
constexpr double printed_s = 2, set_part = 0.005;

}  // namespace

void check_environment(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const std::int64_t world = report.integer("/world");
  const std::vector<ReportReader> ranks = report.list("/ranks");
  findings.compare("ranks listed", std::ssize(ranks), world);
  std::set<std::pair<std::string, std::int64_t>> processes;
  std::map<std::string, std::int64_t> of_host;
  std::int64_t place = 0;
  for (const ReportReader& rank : ranks) {
    check_rank(rank, place++, processes, findings);
    ++of_host[rank.text("/host")];
    refuse_faults(rank.at("/environment"), findings);
  }
  refuse_faults(report.at("/environment"), findings);
  // The profile has the ranks on the machine of rank 0. Several machines may have one name.
  const std::int64_t per_node = report.integer("/profile/ranks_per_node");
  if (!ranks.empty())
    findings.at_most(
        {"the ranks per node of the profile", static_cast<double>(per_node)},
        {"the ranks on the host of rank 0", static_cast<double>(of_host[ranks[0].text("/host")])});
  if (report.at("/binaries").empty()) findings.refuse("binaries: the program has no hash");
}

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
