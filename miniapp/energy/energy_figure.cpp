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

using Json = nlohmann::json;

// What nodes send to each other.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseSpan, count, seconds)
static void from_json(const Json& json, PhaseSpans& spans) {
  json.get_to(static_cast<PhaseSpans::Elements&>(spans));
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseReadings, spans, refused, ends, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CounterSteps, update_s, joules)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CounterEnergy, name, source, part, joules, steps, phases, pieces)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeEnergy, host, ranks, counters, missing, phases)

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
  std::string mine;
  if (meters != nullptr && phases != nullptr)
    mine = Json(NodeEnergy{host, ranks_of_node, meters->energy(), meters->missing(),
                           phases->readings()})
               .dump(-1, ' ', true, Json::error_handler_t::replace);
  for (const std::string& text : peers.gather(mine))
    if (!text.empty()) figure.nodes.push_back(Json::parse(text));
  return figure;
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
    if (!c.phases.contains(phase))
      return "in the last warm-up step, phases were too short for the counter";
    return fmt::format("{:.3g} J in {} are too little for the counter", c.phases.at(phase),
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

namespace {

constexpr double least_said_error = 0.01;

// The lines about the phases.
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
  const auto most = std::ranges::max_element(
      f.nodes, {}, [](const NodeEnergy& node) { return node.phases.seconds; });
  if (most != f.nodes.end() && most->phases.ends > 0 && f.seconds > 0)
    text += fmt::format(
        "  reading the counters at {} ends of phases took {}, {:.2g} % of the timed steps\n",
        most->phases.ends, duration(most->phases.seconds), most->phases.seconds / f.seconds * 100);
  return text;
}

}  // namespace

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

}  // namespace shardmark
