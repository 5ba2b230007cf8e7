// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <miniapp/report/report_energy.hpp>

namespace shardmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson number(std::optional<double> value) {
  return value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson(nullptr);
}

// An object with one value for each phase.
template<class Value>
OrderedJson by_phase(Value value) {
  OrderedJson o;
  for (const EnergyPhase phase : all_values<EnergyPhase>)
    o[std::string(energy_phase_names[phase])] = value(phase);
  return o;
}

OrderedJson to_json(const NodeEnergy& node) {
  const PhaseSpans& spans = node.phases.spans;
  OrderedJson counters = OrderedJson::array();
  for (const CounterEnergy& c : node.counters)
    counters.push_back(
        {{"name", c.name},
         {"source", c.source},
         {"part", to_string(c.part)},
         {"joules", number(c.joules)},
         {"update_s", number(c.steps.update_s)},
         {"phases", by_phase([&](EnergyPhase p) { return number(c.phase_joules(p, spans)); })}});
  return {
      {"host", node.host},
      {"ranks", node.ranks},
      {"joules", number(node.joules())},
      {"counters", counters},
      {"phases", by_phase([&](EnergyPhase p) {
         return OrderedJson{{"count", spans[p].count}, {"seconds", number(spans[p].seconds)}};
       })},
      {"readings", {{"phase_ends", node.phases.ends}, {"seconds", number(node.phases.seconds)}}},
      {"missing", node.missing}};
}

}  // namespace

OrderedJson energy_json(const EnergyFigure& f) {
  const auto joules = f.joules();
  const auto per = [&](double count) {
    return joules && count > 0 ? number(*joules / count) : OrderedJson(nullptr);
  };
  OrderedJson nodes = OrderedJson::array();
  double ranks = 0;
  for (const NodeEnergy& node : f.nodes) {
    ranks += node.ranks;
    nodes.push_back(to_json(node));
  }
  const auto phase = [&](EnergyPhase p) {
    const auto energy = f.phase(p);
    return OrderedJson{{"joules", energy ? number(energy->joules) : OrderedJson(nullptr)},
                       {"error", energy ? number(energy->error) : OrderedJson(nullptr)}};
  };
  return {{"joules", per(1)},
          {"seconds", number(f.seconds)},
          {"watts", per(f.seconds)},
          {"joules_per_token", per(f.tokens)},
          {"joules_per_rank", per(ranks)},
          {"error", joules ? number(f.error()) : OrderedJson(nullptr)},
          {"whole_nodes", joules && f.whole()},
          {"phases", by_phase(phase)},
          {"unresolved", f.unresolved()},
          {"nodes", nodes}};
}

}  // namespace shardmark
