// SPDX-License-Identifier: Apache-2.0
// The energy: its sums and ratios, and the span in which it was used.
#include <map>
#include <optional>

#include <core/text.hpp>
#include <miniapp/energy/energy_figure.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

std::optional<double> optional_number(const ReportReader& report, const std::string& at) {
  if (report.at(at).is_null()) return std::nullopt;
  return report.number(at);
}

void compare_optional(const std::string& what, const std::optional<double>& reported,
                      const std::optional<double>& recomputed, Findings& findings) {
  const auto shown = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("nothing");
  };
  if (reported && recomputed) return findings.compare_number(what, *reported, *recomputed);
  if (reported || recomputed)
    findings.refuse(fmt::format("{}: the report says {}, recomputed it is {}", what,
                                shown(reported), shown(recomputed)));
}

EnergyPart part_of(const std::string& name) {
  for (const EnergyPart part : all_values<EnergyPart>)
    if (name == to_string(part)) return part;
  throw ReportError(fmt::format("report.json: energy: there is no part {}", name));
}

// Phases of the step are counted and timed where a counter was read, and nowhere else; checkpoints
// always are.
void check_phases(const ReportReader& node, const NodeEnergy& energy, Findings& findings) {
  for (const EnergyPhase p : all_values<EnergyPhase>) {
    const std::string at = fmt::format("/phases/{}/", to_string(p));
    const std::int64_t count = node.integer(at + "count");
    const double seconds = node.number(at + "seconds");
    findings.is_time({fmt::format("the phase {} of {}", to_string(p), energy.host), seconds});
    const bool idle = energy.counters.empty() && p != EnergyPhase::checkpoint;
    if (count < 0 || (idle && (count > 0 || seconds > 0)))
      findings.refuse(fmt::format("energy of {}: {} counts {} times, {} s, and {} read",
                                  energy.host, to_string(p), count, seconds,
                                  plural(std::ssize(energy.counters), "counter")));
  }
}

// What a node used, as the report lists it. Phases whose joules are too uncertain are left out
// there.
NodeEnergy reported_node(const ReportReader& node, double timed_s, Findings& findings) {
  NodeEnergy energy;
  energy.host = node.text("/host");
  energy.ranks = static_cast<int>(node.integer("/ranks"));
  for (const ReportReader& one : node.list("/counters")) {
    CounterEnergy counter{one.text("/name"),
                          one.text("/source"),
                          part_of(one.text("/part")),
                          one.number("/joules"),
                          {},
                          {}};
    const std::string name = fmt::format("{} of {}, in J,", counter.name, energy.host);
    findings.is_time({name, counter.joules});
    double sum = 0;
    for (const EnergyPhase p : all_values<EnergyPhase>) {
      const auto joules = optional_number(one, fmt::format("/phases/{}", to_string(p)));
      if (joules) counter.phases[p] = *joules;
      findings.is_time({name, joules.value_or(0)});
      if (p != EnergyPhase::checkpoint) sum += joules.value_or(0);
    }
    findings.at_most({"the phases of " + name, sum}, {"the counter", counter.joules});
    energy.counters.push_back(counter);
  }
  check_phases(node, energy, findings);
  double phases_s = 0;
  for (const EnergyPhase p : {EnergyPhase::forward, EnergyPhase::backward, EnergyPhase::optimizer})
    phases_s += node.number(fmt::format("/phases/{}/seconds", to_string(p)));
  findings.at_most({"the phases of " + energy.host + ", in s,", phases_s},
                   {"the timed span", timed_s});
  compare_optional("joules of " + energy.host, optional_number(node, "/joules"), energy.joules(),
                   findings);
  return energy;
}

// Each rank belongs to the node that lists it.
void check_nodes(const RunFacts& facts, const EnergyFigure& energy, Findings& findings) {
  std::map<std::string, std::int64_t> ranks;
  for (const ReportReader& rank : facts.report.list("/ranks")) ++ranks[rank.text("/host")];
  for (const NodeEnergy& node : energy.nodes) ranks[node.host] -= node.ranks;
  for (const auto& [host, left] : ranks)
    if (left != 0)
      findings.refuse(fmt::format("energy: host {} has {} {} than ranks lists", host,
                                  left > 0 ? left : -left,
                                  left > 0 ? "ranks fewer" : "ranks more"));
}

void check_ratios(const RunFacts& facts, const EnergyFigure& energy, Findings& findings) {
  const ReportReader& report = facts.report;
  const auto joules = energy.joules();
  const auto per = [&](double count) {
    return joules && count > 0 ? std::optional(*joules / count) : std::nullopt;
  };
  double ranks = 0;
  for (const NodeEnergy& node : energy.nodes) ranks += node.ranks;
  const auto compare = [&](const char* name, const std::optional<double>& recomputed) {
    compare_optional(fmt::format("energy: {}", name),
                     optional_number(report, fmt::format("/energy/{}", name)), recomputed,
                     findings);
  };
  compare("joules", joules);
  compare("watts", per(energy.seconds));
  compare("joules_per_rank", per(ranks));
  if (report.text("/fom/name") == "tokens_per_s")
    compare("joules_per_token", per(report.number("/fom/value") * energy.seconds));
  findings.compare<bool>("energy: whole_nodes", report.at("/energy/whole_nodes") == true,
                         joules && energy.whole());
}

}  // namespace

void check_energy(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const double timed_s = report.number("/step_seconds/timed_total");
  EnergyFigure energy;
  energy.seconds = report.number("/energy/seconds");
  // The span of rank 0: its phases lie in it, and timed_total is that of the slowest rank.
  const double phases_s = sum_of_phases(report, "/seconds_per_step");
  findings.at_most(
      {"the phases of rank 0, in s,", phases_s * static_cast<double>(facts.timed().size())},
      {"the span of the energy", energy.seconds});
  findings.at_most({"the span of the energy, in s,", energy.seconds}, {"timed_total", timed_s});
  for (const ReportReader& node : report.list("/energy/nodes"))
    energy.nodes.push_back(reported_node(node, timed_s, findings));
  check_nodes(facts, energy, findings);
  check_ratios(facts, energy, findings);
}

}  // namespace shardmark
