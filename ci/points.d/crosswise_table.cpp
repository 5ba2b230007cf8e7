// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ci/points.d/crosswise.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace shardmark::points {
namespace {

std::string in_percent(const std::optional<double>& part) {
  return part ? fmt::format("{:.1f}", 100 * *part) : "";
}

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string crosswise_text(const std::vector<Crossed>& means) {
  std::string text =
      fmt::format("\n{:<44} {:>5} {:>5} {:>7} {:>7} {:>7} {:>9} {:>14} {:>15}\n", "left out",
                  "parts", "rows", "mean", "worst", "bias", "interval", "constant rate",
                  "one efficiency");
  for (const Crossed& m : means)
    text += fmt::format("{:<44} {:>5} {:>5} {:>7.1f} {:>7.1f} {:>+7.1f} {:>9.0f} {:>14} {:>15}\n",
                        m.name, m.parts, m.rows, 100 * m.mean, 100 * m.worst, 100 * m.bias,
                        100 * m.covered, in_percent(m.constant_rate), in_percent(m.one_efficiency));
  return text;
}

std::string crosswise_markdown(const std::vector<Crossed>& means) {
  std::string text =
      "| left out | parts | rows | mean error, % | worst | bias | in the interval, % | null: "
      "constant rate per GPU | null: one efficiency |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Crossed& m : means)
    text += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} | {:.0f} | {} | {} |\n", m.name,
                        m.parts, m.rows, 100 * m.mean, 100 * m.worst, 100 * m.bias, 100 * m.covered,
                        in_percent(m.constant_rate), in_percent(m.one_efficiency));
  return text;
}

nlohmann::ordered_json crosswise_json(const std::vector<Crossed>& means,
                                      const std::vector<Way>& ways) {
  using Json = nlohmann::ordered_json;
  Json file{{"means", Json::array()}, {"figures", Json::array()}, {"points", Json::array()}};
  for (const Way& way : ways)
    for (const auto& [part, groups] : way.figures)
      for (const auto& [group, figures] : groups) {
        Json fitted{{"left_out", way.name}, {"part", part}, {"generation", group}};
        for (std::size_t k = 0; k < fitted_figures; ++k)
          fitted[fitted_figure_list()[k].key] = std::exp(figures[k]);
        file["figures"].push_back(std::move(fitted));
      }
  for (const Crossed& m : means)
    file["means"].push_back({{"left_out", m.name},
                             {"parts", m.parts},
                             {"rows", m.rows},
                             {"mean_error", m.mean},
                             {"worst_error", m.worst},
                             {"bias", m.bias},
                             {"covered", m.covered},
                             {"constant_rate_error", number_or_null(m.constant_rate)},
                             {"one_efficiency_error", number_or_null(m.one_efficiency)}});
  for (const Way& way : ways)
    for (const LeftOut& x : way.points)
      file["points"].push_back({{"left_out", way.name},
                                {"part", x.part},
                                {"source", x.point->source},
                                {"gpu", x.point->gpu},
                                {"gpus", x.point->gpus},
                                {"model", describe(*x.point)},
                                {"measured", x.point->step_s},
                                {"predicted", x.predicted_s},
                                {"error", x.error()},
                                {"reach", x.reach}});
  return file;
}

}  // namespace shardmark::points
