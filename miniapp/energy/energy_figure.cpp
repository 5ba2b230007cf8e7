// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/energy/energy_figure.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::json;

Json to_json(const EnergyMeters& meters, const std::string& host, int ranks) {
  Json counters = Json::array();
  for (const CounterEnergy& c : meters.energy())
    counters.push_back({c.name, c.source, static_cast<int>(c.part), c.joules});
  return {{"host", host}, {"ranks", ranks}, {"counters", counters}, {"missing", meters.missing()}};
}

NodeEnergy from_json(const Json& json) {
  NodeEnergy node;
  node.host = json.at("host");
  node.ranks = json.at("ranks");
  node.missing = json.at("missing");
  for (const Json& c : json.at("counters"))
    node.counters.push_back(
        {c.at(0), c.at(1), static_cast<EnergyPart>(c.at(2).get<int>()), c.at(3)});
  return node;
}

}  // namespace

bool NodeEnergy::whole() const {
  return std::any_of(counters.begin(), counters.end(),
                     [](const CounterEnergy& c) { return c.part == EnergyPart::node; });
}

std::optional<double> NodeEnergy::joules() const {
  if (counters.empty()) return std::nullopt;
  double sum = 0;
  for (const CounterEnergy& c : counters)
    if (!whole() || c.part == EnergyPart::node) sum += c.joules;
  return sum;
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

bool EnergyFigure::whole() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const NodeEnergy& n) { return n.whole(); });
}

std::string EnergyFigure::parts() const {
  std::set<EnergyPart> in;
  for (const NodeEnergy& node : nodes)
    for (const CounterEnergy& c : node.counters) in.insert(c.part);
  std::vector<std::string> names;
  for (const EnergyPart part : in) names.emplace_back(to_string(part));
  return join(names, ", ");
}

EnergyFigure collect_energy(const EnergyMeters* meters, const std::string& host, int ranks_of_node,
                            double seconds, double tokens, Peers& peers) {
  EnergyFigure figure;
  figure.seconds = seconds;
  figure.tokens = tokens;
  const std::string mine = meters != nullptr
                               ? to_json(*meters, host, ranks_of_node)
                                     .dump(-1, ' ', true, Json::error_handler_t::replace)
                               : "";
  for (const std::string& text : peers.gather(mine))
    if (!text.empty()) figure.nodes.push_back(from_json(Json::parse(text)));
  return figure;
}

std::string describe(const EnergyFigure& f) {
  std::string text = "\nEnergy, timed steps\n";
  int ranks = 0;
  std::set<std::string> missing;
  for (const NodeEnergy& node : f.nodes) {
    ranks += node.ranks;
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
    if (f.seconds > 0) text += fmt::format(", {:.4g} W", *joules / f.seconds);
    if (f.tokens > 0) text += fmt::format(", {:.4g} J per token", *joules / f.tokens);
    text += f.whole() ? " of whole nodes\n"
                      : fmt::format(
                            " of a part of each node: {}; fans, network and what else has "
                            "no counter are not in it\n",
                            f.parts());
  }
  for (const std::string& reason : missing) text += fmt::format("  not measured: {}\n", reason);
  return text;
}

}  // namespace shardmark
