// SPDX-License-Identifier: Apache-2.0
// Scaling series for scripts. docs/scaling.md lists the keys.
#include <nlohmann/json.hpp>

#include <miniapp/tools/compare/scaling.hpp>

namespace shardmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson or_null(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson scaling_point_json(const ScalingPoint& p) {
  return {{"ranks", p.ranks},
          {"nodes", p.nodes > 0 ? OrderedJson(p.nodes) : OrderedJson(nullptr)},
          {"runs", p.runs},
          {"parameters", p.parameters > 0 ? OrderedJson(p.parameters) : OrderedJson(nullptr)},
          {"layers", p.layers > 0 ? OrderedJson(p.layers) : OrderedJson(nullptr)},
          {"tokens_per_step", p.tokens},
          {"tokens_per_s", p.tokens_per_s},
          {"tokens_per_s_lowest", p.lowest},
          {"tokens_per_s_highest", p.highest},
          {"merit", p.merit},
          {"merit_per_rank", p.merit_per_rank()},
          {"speedup", or_null(p.speedup)},
          {"ideal", p.ideal},
          {"efficiency", or_null(p.efficiency)},
          {"step_p50_s", or_null(p.step_p50_s)},
          {"exposed_communication_share", or_null(p.exposed_share)}};
}

}  // namespace

OrderedJson scaling_json(const std::vector<ScalingSeries>& list) {
  OrderedJson json = OrderedJson::array();
  for (const ScalingSeries& series : list) {
    OrderedJson points = OrderedJson::array();
    for (const ScalingPoint& p : series.points) points.push_back(scaling_point_json(p));
    json.push_back({{"name", series.name},
                    {"predicted", series.predicted},
                    {"kind", to_string(series.kind)},
                    {"models_differ", series.models_differ},
                    {"merit", series.merit_name()},
                    {"reference_ranks", series.points.front().ranks},
                    {"sentence", scaling_sentence(series)},
                    {"points", std::move(points)},
                    {"notes", series.notes}});
  }
  return json;
}

}  // namespace shardmark
