// SPDX-License-Identifier: Apache-2.0
// The part of the figure that divides energy among phases.
#include <algorithm>
#include <set>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/energy/energy_figure.hpp>

namespace shardmark {
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
              fmt::format("no joules of {} by {}: {}", energy_phase_names[phase], source, why));
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
        parts.push_back(fmt::format("{} {:.4g} J (± {:.2g} %)", energy_phase_names[phase],
                                    energy->joules, energy->error * 100));
    if (!parts.empty()) text += fmt::format("  {} by phase: {}\n", name, join(parts, ", "));
  };
  const std::vector<std::string> sources = f.sources();
  for (const std::string& source : sources) line(source, source);
  if (sources.size() > 1) line("", "in all");
  for (const std::string& sentence : f.unresolved()) text += fmt::format("  {}\n", sentence);
  const auto most = std::max_element(
      f.nodes.begin(), f.nodes.end(),
      [](const NodeEnergy& a, const NodeEnergy& b) { return a.phases.seconds < b.phases.seconds; });
  if (most != f.nodes.end() && most->phases.ends > 0 && f.seconds > 0)
    text += fmt::format(
        "  reading the counters at {} ends of phases took {}, {:.2g} % of the timed steps\n",
        most->phases.ends, duration(most->phases.seconds), most->phases.seconds / f.seconds * 100);
  return text;
}

}  // namespace shardmark
