// SPDX-License-Identifier: Apache-2.0
// Times of the steps, which a report has five times: by step in losses.csv, as percentiles, by
// phase, by rank and by host. Which order holds among them follows from how the trainer takes them.
#include <algorithm>
#include <map>
#include <numeric>

#include <core/percentile.hpp>
#include <miniapp/measure/deepspeed_comms_log.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/checks/limits.hpp>

namespace shardmark {

namespace {

// Of several ranks, one may begin a step while another one still ends the step before, so that the
// slowest ranks' times add up to more than the timed span. How much depends on how ranks share
// cores: a part of the time, in short runs what a rank loses when it leaves its core, and in steps
// of a millisecond or two what it takes to begin one (1000 such steps on busy cores: 0.42 s).
constexpr double overlap_part = 0.05, overlap_each_s = 5e-4, overlap_s = 0.3;

// The timed steps by losses.csv: the time of each is that of its slowest rank.
struct TimedSteps {
  std::vector<double> seconds;
  double sum = 0, p50 = 0, p99 = 0, worst = 0;
  double mean() const { return seconds.empty() ? 0 : sum / static_cast<double>(seconds.size()); }
};

TimedSteps timed_steps(const RunFacts& facts) {
  TimedSteps steps;
  for (const LossRow& row : facts.timed()) steps.seconds.push_back(row.seconds);
  steps.sum = std::accumulate(steps.seconds.begin(), steps.seconds.end(), 0.0);
  steps.p50 = percentile(steps.seconds, 0.5);
  steps.p99 = percentile(steps.seconds, 0.99);
  steps.worst = percentile(steps.seconds, 1);
  return steps;
}

// Between two steps the ranks agree on whether to go on and print a line; checkpoints are not
// counted. Honest runs of a few steps on shared cores took up to 3 % and 9 ms per step for that.
constexpr double between_part = 0.05, between_each_s = 2e-3, between_s = 0.5;

// The steps of one rank follow each other. With several ranks, no rank begins a step before all
// have done the step before the last one, because they agree in each step on whether to stop.
void check_span(const TimedSteps& steps, std::int64_t world, double total_s, Findings& findings) {
  findings.is_positive({"timed_total", total_s});
  double even_s = 0, odd_s = 0;
  for (std::size_t s = 0; s < steps.seconds.size(); ++s)
    (s % 2 == 0 ? even_s : odd_s) += steps.seconds[s];
  const double usual_s =
      (1 - overlap_part) * steps.sum - overlap_each_s * static_cast<double>(steps.seconds.size());
  const double least_s =
      world == 1 ? steps.sum * (1 - rounding) : std::max({usual_s, even_s, odd_s}) - overlap_s;
  if (total_s < least_s)
    findings.refuse(fmt::format("timed_total is {} s, but the timed steps of losses.csv took {} s",
                                total_s, steps.sum));
  findings.at_most({"timed_total", total_s},
                   {"the timed steps of losses.csv with what lies between them",
                    (1 + between_part) * steps.sum +
                        between_each_s * static_cast<double>(steps.seconds.size()) + between_s});
}

// Steps vary by many ticks of any clock, so that no time is that of many of them.
void check_repeated_times(const std::vector<double>& seconds, Findings& findings) {
  constexpr std::size_t chance = 5, part = 20;
  const std::size_t most = std::max(chance, seconds.size() / part);
  std::map<double, std::size_t> times;
  for (const double s : seconds)
    if (++times[s] > most)
      return findings.refuse(
          fmt::format("losses.csv: more than {} of {} timed steps take {} s to the nanosecond",
                      most, seconds.size(), s));
}

void check_percentiles(const RunFacts& facts, const TimedSteps& steps, Findings& findings) {
  const ReportReader& report = facts.report;
  for (const LossRow& row : facts.rows)
    findings.is_positive({fmt::format("losses.csv: the time of step {}", row.step), row.seconds});
  check_repeated_times(steps.seconds, findings);
  findings.compare_number("p50 of the steps", report.number("/step_seconds/p50"), steps.p50);
  findings.compare_number("p99 of the steps", report.number("/step_seconds/p99"), steps.p99);
  findings.compare_number("worst of the steps", report.number("/step_seconds/worst"), steps.worst);
  check_span(steps, report.integer("/world"), report.number("/step_seconds/timed_total"), findings);
}

// Seconds per timed step of one rank, as `seconds_per_step` has them.
struct PhaseSeconds : TimeResult {
  std::string whose;  // "rank 3"
};

PhaseSeconds phase_seconds(const ReportReader& report, const std::string& at,
                           const std::string& whose) {
  PhaseSeconds seconds;
  seconds.whose = whose;
  for (const NamedTime& n : named_times) seconds.*n.of = report.number(at + "/" + n.key);
  return seconds;
}

// The phases of a rank lie within its steps, one after another, and it waits, copies and multiplies
// within its phases. On a GPU the device multiplies behind the host, but within the timed span.
void check_phases(const RunFacts& facts, const TimedSteps& steps, const PhaseSeconds& t,
                  Findings& findings) {
  const auto named = [&](const char* what, double value) {
    return Named{fmt::format("{} of {} per step, in s,", what, t.whose), value};
  };
  for (const NamedTime& n : named_times) findings.is_time(named(n.name, t.*n.of));
  const Named mean{"the mean step of losses.csv", steps.mean()};
  const Named phases{"its forward, backward and optimizer", t.phases()};
  findings.at_most(named("forward, backward and optimizer", t.phases()), mean);
  const double span_s = facts.report.number("/step_seconds/timed_total");
  findings.at_most({fmt::format("all steps of {} by their phases, in s,", t.whose),
                    t.phases() * static_cast<double>(steps.seconds.size())},
                   {"timed_total, in which they follow each other", span_s});
  findings.at_most(named("exposed communication", t.exposed), phases);
  findings.at_most(named("copies", t.copies), phases);
  findings.at_most(named("communication", t.exposed + t.hidden), mean);
  if (facts.on_host())
    findings.at_most(named("matrix products", t.matmul), phases);
  else
    findings.at_most(named("matrix products", t.matmul),
                     {"the timed span per step", span_s / static_cast<double>(std::max<std::size_t>(
                                                              1, steps.seconds.size()))});
}

RankSteps own_times(const ReportReader& one) {
  return {one.number("/own_seconds/p50"), one.number("/own_seconds/p99"),
          one.number("/own_seconds/worst"), one.number("/waiting_caused_per_step")};
}

// In each step a rank's own time is no longer than the step, so that no percentile is either.
void check_own_times(const std::string& whose, const RankSteps& own, const TimedSteps& steps,
                     Findings& findings) {
  const auto of = [&](const char* which, double value) {
    return Named{fmt::format("the {} of {}'s own time, in s,", which, whose), value};
  };
  findings.is_time(of("p50", own.p50_s));
  findings.at_most(of("p50", own.p50_s), of("p99", own.p99_s));
  findings.at_most(of("p99", own.p99_s), of("worst", own.worst_s));
  findings.at_most(of("p50", own.p50_s), {"the p50 of the steps", steps.p50});
  findings.at_most(of("p99", own.p99_s), {"the p99 of the steps", steps.p99});
  findings.at_most(of("worst", own.worst_s), {"the worst of the steps", steps.worst});
  findings.is_time({fmt::format("the waiting that {} caused", whose), own.waiting_caused_s});
}

// The mean of a rank's own times lies between the least and the largest that its percentiles allow.
void check_own_mean(const PhaseSeconds& mean, const RankSteps& own, std::size_t steps,
                    Findings& findings) {
  const auto count = static_cast<double>(steps);
  const Percentiles p{own.p50_s, own.p99_s, steps};
  const Named sum{fmt::format("the own time of {} by its phases, in s,", mean.whose),
                  mean.own() * count};
  findings.at_most({fmt::format("the least own time of {} by its percentiles, in s,", mean.whose),
                    least_sum(p, own.worst_s)},
                   sum);
  findings.at_most(sum, {"the most that its percentiles allow", largest_sum(p, own.worst_s)});
}

std::vector<RankSteps> check_ranks(const RunFacts& facts, const TimedSteps& steps,
                                   Findings& findings) {
  std::vector<RankSteps> ranks;
  double caused = 0;
  for (const ReportReader& one : facts.report.list("/rank_steps")) {
    findings.compare<std::int64_t>("rank of rank_steps", one.integer("/rank"), std::ssize(ranks));
    ranks.push_back(own_times(one));
    caused += ranks.back().waiting_caused_s;
    check_own_times(fmt::format("rank {}", ranks.size() - 1), ranks.back(), steps, findings);
  }
  const auto world = facts.report.integer("/world");
  findings.compare<std::int64_t>("ranks of rank_steps", std::ssize(ranks), world);
  // A rank waits no longer than its steps last.
  findings.at_most({"the waiting that all ranks caused per step, in s,", caused},
                   {"the mean step of all ranks", steps.mean() * static_cast<double>(world)});
  return ranks;
}

// host_steps follows from rank_steps and the hosts of the ranks.
void check_hosts(const RunFacts& facts, const std::vector<RankSteps>& ranks, Findings& findings) {
  std::map<std::string, RankSteps> hosts;
  const std::vector<ReportReader> places = facts.report.list("/ranks");
  for (std::size_t r = 0; r < std::min(ranks.size(), places.size()); ++r)
    hosts[places[r].text("/host")].include(ranks[r]);
  for (const ReportReader& one : facts.report.list("/host_steps")) {
    const std::string name = one.text("/host");
    const auto it = hosts.find(name);
    if (it == hosts.end()) {
      findings.refuse(fmt::format("host_steps has {}, on which no rank ran", name));
      continue;
    }
    const RankSteps have = own_times(one);
    findings.compare_number("p50 of host " + name, have.p50_s, it->second.p50_s);
    findings.compare_number("p99 of host " + name, have.p99_s, it->second.p99_s);
    findings.compare_number("worst of host " + name, have.worst_s, it->second.worst_s);
    findings.compare_number("waiting caused by host " + name, have.waiting_caused_s,
                            it->second.waiting_caused_s);
    hosts.erase(it);
  }
  for (const auto& [name, times] : hosts) findings.refuse("host_steps lacks host " + name);
}

// The slowest rank is the one with the largest mean of its own times.
void check_slowest(const RunFacts& facts, const TimedSteps& steps,
                   const std::vector<RankSteps>& ranks, Findings& findings) {
  const ReportReader& report = facts.report;
  const std::int64_t rank = report.integer("/slowest_rank/rank");
  const std::size_t count = steps.seconds.size();
  const PhaseSeconds zero = phase_seconds(report, "/seconds_per_step", "rank 0");
  const PhaseSeconds slowest = phase_seconds(report, "/slowest_rank/seconds_per_step",
                                             fmt::format("the slowest rank, {},", rank));
  check_phases(facts, steps, zero, findings);
  check_phases(facts, steps, slowest, findings);
  findings.compare_number("own time of the slowest rank",
                          report.number("/slowest_rank/own_seconds_per_step"), slowest.own());
  findings.at_most({"the own time of rank 0 per step, in s,", zero.own()},
                   {"that of the slowest rank", slowest.own()});
  if (rank == 0 && report.at("/seconds_per_step") != report.at("/slowest_rank/seconds_per_step"))
    findings.refuse("the slowest rank is rank 0, with other times than those of rank 0");
  if (rank < 0 || rank >= std::ssize(ranks))
    return findings.refuse(fmt::format("slowest_rank is {}: there is no such rank", rank));
  if (count == 0) return;
  check_own_mean(zero, ranks[0], count, findings);
  check_own_mean(slowest, ranks[rank], count, findings);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    findings.at_most(
        {fmt::format("the least own time of rank {} by its percentiles, in s,", r),
         least_sum({ranks[r].p50_s, ranks[r].p99_s, count}, ranks[r].worst_s)},
        {"the own time of the slowest rank", slowest.own() * static_cast<double>(count)});
}

}  // namespace

void check_step_times(const RunFacts& facts, Findings& findings) {
  const TimedSteps steps = timed_steps(facts);
  check_percentiles(facts, steps, findings);
  const std::vector<RankSteps> ranks = check_ranks(facts, steps, findings);
  check_hosts(facts, ranks, findings);
  check_slowest(facts, steps, ranks, findings);
}

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
