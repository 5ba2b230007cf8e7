// SPDX-License-Identifier: Apache-2.0
// The part of the figure that divides energy among phases.
#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/energy/energy_figure.hpp>

namespace shardmark {

namespace {

constexpr double least_said_error = 0.01;

using Json = nlohmann::json;

Json to_json(const PhaseReadings& p) {
  Json spans = Json::array();
  for (const PhaseSpan& span : p.spans) spans.push_back({span.count, span.seconds});
  return {{"spans", spans}, {"refused", p.refused}, {"ends", p.ends}, {"seconds", p.seconds}};
}

Json to_json(const CounterEnergy& c) {
  Json phases = Json::array();
  for (const auto& joules : c.phases) phases.push_back(joules ? Json(*joules) : Json());
  return {c.name, c.source, static_cast<int>(c.part), c.joules, c.steps.update_s, c.steps.joules,
          phases, c.pieces};
}

Json to_json(const EnergyMeters& meters, const PhaseReadings& phases, const std::string& host,
             int ranks) {
  Json counters = Json::array();
  for (const CounterEnergy& c : meters.energy()) counters.push_back(to_json(c));
  return {{"host", host},
          {"ranks", ranks},
          {"counters", counters},
          {"missing", meters.missing()},
          {"phases", to_json(phases)}};
}

PhaseReadings readings_of(const Json& json) {
  PhaseReadings p;
  for (std::size_t i = 0; i < p.spans.size(); ++i)
    p.spans[i] = {json.at("spans").at(i).at(0), json["spans"][i].at(1)};
  p.refused = json.at("refused");
  p.ends = json.at("ends");
  p.seconds = json.at("seconds");
  return p;
}

CounterEnergy counter_of(const Json& json) {
  CounterEnergy c{json.at(0),
                  json.at(1),
                  static_cast<EnergyPart>(json.at(2).get<int>()),
                  json.at(3),
                  {json.at(4), json.at(5)}};
  for (std::size_t i = 0; i < c.phases.size(); ++i)
    if (const Json& joules = json.at(6).at(i); !joules.is_null()) c.phases[i] = joules;
  c.pieces = json.at(7);
  return c;
}

NodeEnergy node_of(const Json& json) {
  NodeEnergy node;
  node.host = json.at("host");
  node.ranks = json.at("ranks");
  node.missing = json.at("missing");
  node.phases = readings_of(json.at("phases"));
  for (const Json& c : json.at("counters")) node.counters.push_back(counter_of(c));
  return node;
}

}  // namespace

bool NodeEnergy::whole() const {
  return std::ranges::any_of(counters,
                             [](const CounterEnergy& c) { return c.part == EnergyPart::node; });
}

std::optional<double> NodeEnergy::joules() const {
  if (counters.empty()) return std::nullopt;
  double sum = 0;
  for (const CounterEnergy& c : counted()) sum += c.joules;
  return sum;
}

std::vector<CounterEnergy> NodeEnergy::counted() const {
  std::vector<CounterEnergy> in;
  std::ranges::copy_if(counters, std::back_inserter(in), [&](const CounterEnergy& c) {
    return !whole() || c.part == EnergyPart::node;
  });
  return in;
}

std::optional<double> EnergyFigure::joules() const {
  double sum = 0;
  for (const NodeEnergy& node : nodes) {
    const auto joules = node.joules();
    if (!joules) return std::nullopt;
    sum += *joules;
  }
  return nodes.empty() ? std::nullopt : std::optional(sum);
}

double EnergyFigure::error() const {
  double most = 0;
  for (const NodeEnergy& node : nodes)
    for (const CounterEnergy& c : node.counted()) most = std::max(most, c.error(seconds));
  return most;
}

bool EnergyFigure::whole() const {
  return std::ranges::all_of(nodes, &NodeEnergy::whole);
}

std::string EnergyFigure::parts() const {
  std::set<EnergyPart> in;
  for (const NodeEnergy& node : nodes)
    for (const CounterEnergy& c : node.counters) in.insert(c.part);
  std::vector<std::string> names;
  for (const EnergyPart part : in) names.emplace_back(to_string(part));
  return join(names, ", ");
}

EnergyFigure collect_energy(const EnergyMeters* meters, const PhaseMeter* phases,
                            const std::string& host, int ranks_of_node, double seconds,
                            double tokens, Peers& peers) {
  EnergyFigure figure;
  figure.seconds = seconds;
  figure.tokens = tokens;
  const std::string mine = meters != nullptr && phases != nullptr
                               ? to_json(*meters, phases->readings(), host, ranks_of_node)
                                     .dump(-1, ' ', true, Json::error_handler_t::replace)
                               : "";
  for (const std::string& text : peers.gather(mine))
    if (!text.empty()) figure.nodes.push_back(node_of(Json::parse(text)));
  return figure;
}

std::string describe(const EnergyFigure& f) {
  std::string text = "\nEnergy, timed steps\n";
  std::set<std::string> missing;
  for (const NodeEnergy& node : f.nodes) {
    std::vector<std::string> counters;
    for (const CounterEnergy& c : node.counters)
      counters.push_back(fmt::format("{} {:.4g} J ({})", c.name, c.joules, c.source));
    if (const auto joules = node.joules())
      text += fmt::format("  {}  {:.4g} J, {:.4g} J per rank: {}\n", node.host, *joules,
                          *joules / node.ranks, join(counters, ", "));
    missing.insert(node.missing.begin(), node.missing.end());
  }
  if (const auto joules = f.joules()) {
    text += fmt::format("  in all {:.4g} J", *joules);
    if (f.error() >= least_said_error) text += fmt::format(" (± {:.2g} %)", f.error() * 100);
    if (f.seconds > 0) text += fmt::format(", {:.4g} W", *joules / f.seconds);
    if (f.tokens > 0) text += fmt::format(", {:.4g} J per token", *joules / f.tokens);
    text += f.whole() ? " of whole nodes\n"
                      : fmt::format(
                            " of a part of each node: {}; fans, network and what else has "
                            "no counter are not in it\n",
                            f.parts());
    if (f.error() > most_energy_error)
      text += "  no joules_per_token: the timed steps are too short for these counters\n";
  }
  text += describe_phases(f);
  for (const std::string& reason : missing) text += fmt::format("  not measured: {}\n", reason);
  return text;
}

namespace {

// Why the counters of `source` have no figure for a phase on one node; empty if they have one, or
// if there was no such phase.
std::string why_unresolved(const NodeEnergy& node, EnergyPhase phase, const std::string& source) {
  const PhaseSpan& span = node.phases.spans[phase];
  if (span.count == 0) return {};
  for (const CounterEnergy& c : node.counted()) {
    if (c.source != source || c.phase_joules(phase, node.phases.spans)) continue;
    if (c.steps.update_s > most_phase_error * span.mean_s())
      return fmt::format(
          "phases of {} are shorter than {:.0f} intervals of the counter, of {} each",
          duration(span.mean_s()), 1 / most_phase_error, duration(c.steps.update_s));
    if (!c.phases[phase]) return "in the last warm-up step, phases were too short for the counter";
    return fmt::format("{:.3g} J in {} are too little for the counter", *c.phases[phase],
                       plural(span.count, "phase"));
  }
  return {};
}

}  // namespace

std::vector<std::string> EnergyFigure::sources() const {
  std::set<std::string> in;
  for (const NodeEnergy& node : nodes)
    for (const CounterEnergy& c : node.counted()) in.insert(c.source);
  return {in.begin(), in.end()};
}

std::optional<PhaseEnergy> EnergyFigure::phase(EnergyPhase phase, const std::string& source) const {
  std::optional<PhaseEnergy> sum;
  double error_joules = 0;
  for (const NodeEnergy& node : nodes)
    for (const CounterEnergy& c : node.counted()) {
      if (!source.empty() && c.source != source) continue;
      const auto joules = c.phase_joules(phase, node.phases.spans);
      if (!joules) return std::nullopt;
      if (!sum) sum.emplace();
      sum->joules += *joules;
      error_joules += *joules * c.phase_error(phase, node.phases.spans).value_or(0);
    }
  if (sum) sum->error = error_joules / sum->joules;
  return sum;
}

std::vector<std::string> EnergyFigure::unresolved() const {
  std::vector<std::string> sentences;
  for (const NodeEnergy& node : nodes)
    if (!node.counters.empty() && !node.phases.refused.empty()) {
      sentences.push_back("no joules by phase: " + node.phases.refused);
      break;
    }
  if (!sentences.empty()) return sentences;
  for (const std::string& source : sources())
    for (const EnergyPhase phase : all_values<EnergyPhase>)
      for (const NodeEnergy& node : nodes)
        if (const std::string why = why_unresolved(node, phase, source); !why.empty()) {
          sentences.push_back(
              fmt::format("no joules of {} by {}: {}", to_string(phase), source, why));
          break;
        }
  return sentences;
}

std::string describe_phases(const EnergyFigure& f) {
  std::string text;
  const auto line = [&](const std::string& source, const std::string& name) {
    std::vector<std::string> parts;
    for (const EnergyPhase phase : all_values<EnergyPhase>)
      if (const auto energy = f.phase(phase, source))
        parts.push_back(fmt::format("{} {:.4g} J (± {:.2g} %)", to_string(phase), energy->joules,
                                    energy->error * 100));
    if (!parts.empty()) text += fmt::format("  {} by phase: {}\n", name, join(parts, ", "));
  };
  const std::vector<std::string> sources = f.sources();
  for (const std::string& source : sources) line(source, source);
  if (sources.size() > 1) line("", "in all");
  for (const std::string& sentence : f.unresolved()) text += fmt::format("  {}\n", sentence);
  const auto most = std::ranges::max_element(f.nodes, [](const NodeEnergy& a, const NodeEnergy& b) {
    return a.phases.seconds < b.phases.seconds;
  });
  if (most != f.nodes.end() && most->phases.ends > 0 && f.seconds > 0)
    text += fmt::format(
        "  reading the counters at {} ends of phases took {}, {:.2g} % of the timed steps\n",
        most->phases.ends, duration(most->phases.seconds), most->phases.seconds / f.seconds * 100);
  return text;
}

}  // namespace shardmark
