// SPDX-License-Identifier: Apache-2.0
// The energy of the timed steps, by source and by phase.
#include <fmt/core.h>

#include <miniapp/charts/table.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/report/html/sections.hpp>

namespace shardmark::html {
namespace {

std::string cell(const std::optional<PhaseEnergy>& energy) {
  return energy ? fmt::format("{:.4g} ± {:.2g} %", energy->joules, energy->error * 100) : "–";
}

double joules_of(const EnergyFigure& f, const std::string& source) {
  double joules = 0;
  for (const NodeEnergy& node : f.nodes)
    for (const CounterEnergy& c : node.counted())
      if (c.source == source) joules += c.joules;
  return joules;
}

}  // namespace

std::string energy_section(const Result& r) {
  const EnergyFigure& f = r.energy;
  const auto sources = f.sources();
  if (sources.empty()) return {};
  Table table{"Joules of all nodes in the timed steps", {"counters", "in all"}, {}, 1};
  for (const EnergyPhase phase : all_values<EnergyPhase>)
    table.head.emplace_back(energy_phase_names[phase]);
  const auto row = [&](const std::string& source, const std::string& name,
                       const std::string& joules) {
    std::vector<std::string> cells{escape(name), joules};
    for (const EnergyPhase phase : all_values<EnergyPhase>)
      cells.push_back(cell(f.phase(phase, source)));
    table.rows.push_back(std::move(cells));
  };
  for (const std::string& source : sources)
    row(source, source, fmt::format("{:.4g}", joules_of(f, source)));
  if (const auto joules = f.joules()) row("", "in all", fmt::format("{:.4g}", *joules));
  std::string text = "<h2>Energy</h2>\n" + to_html(table);
  for (const std::string& sentence : f.unresolved())
    text += fmt::format("<p class=\"soft\">{}.</p>\n", escape(sentence));
  return text;
}

}  // namespace shardmark::html
