// SPDX-License-Identifier: Apache-2.0
// Times of collectives and copies. The plan gives their calls and bytes, so a bandwidth gives the
// time that all calls of a kind took.
#include <algorithm>

#include <core/plan/price/collective_time.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>
#include <miniapp/tools/submission/checks/limits.hpp>

namespace shardmark {
namespace {

// From the start of a call to its end, and the mean wait for the last rank in it.
struct CallTimes {
  double p50, p99, late, bus_gb_s;
  bool routed;
};

// Within a rank, calls begin and end in one step, so none is longer than the worst one. The time of
// all calls is what they waited for the last rank and what the transfers took, which is
//     bytes * bus factor / bus bandwidth
// by the definition of nccl-tests. It must lie between what p50 and p99 allow.
void check_calls(const std::string& name, const CallTimes& t, const Traffic& timed, double factor,
                 double worst_step_s, Findings& findings) {
  const auto named = [&](const char* what, double value) {
    return Named{fmt::format("{} of {}, in s,", what, name), value};
  };
  findings.is_time(named("p50", t.p50));
  findings.is_time(named("late", t.late));
  findings.is_time({"bus bandwidth of " + name, t.bus_gb_s});
  if (timed.bytes == 0)
    findings.at_most({"the bus bandwidth of " + name, t.bus_gb_s},
                     {"nothing: no timed step sends bytes by it", 0});
  findings.at_most(named("p50", t.p50), named("p99", t.p99));
  findings.at_most(named("p99", t.p99), {"the worst step", worst_step_s});
  if (timed.calls == 0) {
    findings.at_most(named("p99", t.p99), {"nothing: no timed step has such a call", 0});
    findings.at_most(named("late", t.late), {"nothing: no timed step has such a call", 0});
    return;
  }
  const auto calls = static_cast<double>(timed.calls);
  const double moved_gb = static_cast<double>(timed.bytes) * factor * 1e-9;
  if (moved_gb > 0 && t.bus_gb_s <= 0) return;  // all of the time was waiting
  if (t.routed) return;                         // the plan does not know the bytes
  const bool known = moved_gb > 0;              // a call of no bytes has no bandwidth
  const double transfers = known ? moved_gb / t.bus_gb_s : 0;
  const Percentiles p{t.p50, t.p99, static_cast<std::size_t>(timed.calls)};
  const Named sum =
      named("the time of all timed calls by its bandwidth and wait", transfers + calls * t.late);
  findings.at_most(sum, {"the most that its p50 and p99 allow", largest_sum(p, worst_step_s)});
  if (known)
    findings.at_most(named("the least time of all timed calls by p50 and p99", least_sum(p)), sum);
}

// The copies of the plan, in the whole run and in a timed step, and how fast they were. On a host
// the rank's own thread makes the copies between tiers, so that they are in its copies.
void check_direction(const RunFacts& facts, Direction d, const std::string& at,
                     Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& program = facts.planned.program;
  const std::string name(to_string(d));
  const LinkTraffic all = copies_of_runs(program, facts.runs)[d];
  for (const char* side : {"predicted", "measured"}) {
    const std::string of = at + "/" + side;
    findings.compare(fmt::format("{} copies {}", side, name), report.integer(of + "/copies"),
                     all.copies);
    findings.compare(fmt::format("{} bytes {}", side, name), report.integer(of + "/bytes"),
                     all.bytes);
  }
  const auto steps = static_cast<double>(std::max<std::size_t>(1, facts.timed().size()));
  const double bytes = report.number(at + "/bytes_per_step");
  const double seconds = report.number(at + "/seconds_per_step");
  const double exposed = report.number(at + "/exposed_seconds_per_step");
  findings.compare_number(
      name + ": bytes per step", bytes,
      static_cast<double>(copies_of_runs(program, facts.timed_runs)[d].bytes) / steps);
  findings.compare_number(name + ": GB/s", report.number(at + "/gb_per_s"),
                          seconds > 0 ? bytes / seconds * 1e-9 : 0);
  findings.at_most({name + ", in GB/s,", report.number(at + "/gb_per_s")},
                   {"what memory carries", limits_of(facts).memory_gb_per_s});
  findings.is_time({name + ": seconds per step", seconds});
  findings.is_time({name + ": exposed seconds per step", exposed});
  findings.at_most({name + ": seconds per step", seconds},
                   {"the timed span per step", report.number("/step_seconds/timed_total") / steps});
  if (facts.on_host())
    findings.at_most({name + ": exposed seconds per step", exposed},
                     {"the copies of rank 0 per step", report.number("/seconds_per_step/copies")});
}

}  // namespace

void check_collective_times(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const Program& program = facts.planned.program;
  const double worst_s = report.number("/step_seconds/worst");
  findings.at_most({"sampled_steps", static_cast<double>(report.integer("/sampled_steps"))},
                   {"the timed steps", static_cast<double>(facts.timed().size())});
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    const int group = static_cast<int>(g);
    const Volume timed = volume_of_runs(program, facts.timed_runs, group);
    for (const auto& [op, traffic] : volume_of_runs(program, facts.runs, group)) {
      const std::string name = collective_name(program, {group, op});
      const std::string at = "/collectives/" + name;
      const auto it = timed.find(op);
      const CallTimes t{report.number(at + "/p50_s"), report.number(at + "/p99_s"),
                        report.number(at + "/late_s"), report.number(at + "/bus_gb_per_s"),
                        report.has(at + "/routed")};
      check_calls(name, t, it == timed.end() ? Traffic{} : it->second,
                  ring_share(op, program.size_of(group)), worst_s, findings);
      findings.at_most({"the bus bandwidth of " + name + ", in GB/s,", t.bus_gb_s},
                       {"what memory carries", limits_of(facts).memory_gb_per_s});
    }
  }
}

void check_copies(const RunFacts& facts, Findings& findings) {
  const LinkVolume all = copies_of_runs(facts.planned.program, facts.runs);
  const bool any =
      std::ranges::any_of(all, [](const LinkTraffic& traffic) { return traffic.copies > 0; });
  if (facts.on_host() && !any)
    findings.at_most(
        {"copies of rank 0 per step, in s,", facts.report.number("/seconds_per_step/copies")},
        {"nothing: the plan has no copy", 0});
  for (const Direction d : all_values<Direction>) {
    const std::string at = (is_disk(d) ? "/disk/" : "/host_link/") + std::string(to_string(d));
    if (all[d].copies > 0 || facts.report.has(at)) check_direction(facts, d, at, findings);
  }
}

}  // namespace shardmark
