// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <ci/points.d/null_models.hpp>
#include <ci/points.d/table.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace shardmark::points {
namespace {

using Choice = std::function<bool(const Row&)>;

Mean mean_of(const std::string& name, const std::vector<Row>& rows, const Choice& choice) {
  MeanOf sum(name);
  for (const Row& r : rows)
    if (r.skipped.empty() && choice(r))
      sum.add(*r.point, r.error(), r.contains_measured(), r.constant_rate_s, r.one_efficiency_s);
  return sum.mean();
}

// Scaling out: the rate relative to that on the fewest GPUs. Errors of ratios have no interval.
Mean scaling(const std::vector<Row>& rows) {
  MeanOf sum("scaling out, relative to the fewest GPUs");
  for (const Row& r : rows)
    if (r.scaling_error && !r.point->poor())
      sum.add(*r.point, *r.scaling_error, {}, r.constant_rate_s, {});
  return sum.mean();
}

std::string percent(const std::optional<double>& part) {
  return part ? fmt::format("{:.1f}", 100 * *part) : "";
}

std::string covered(const Mean& m) {
  return m.covered < 0 ? "" : fmt::format("{:.0f}", 100 * m.covered);
}

nlohmann::ordered_json optional_number(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

void MeanOf::add(const Point& point, double error, std::optional<bool> covered,
                 const std::optional<double>& constant_rate_s,
                 const std::optional<double>& one_efficiency_s) {
  ++sum_.rows;
  sum_.mean += std::abs(error);
  sum_.bias += error;
  sum_.worst = std::max(sum_.worst, std::abs(error));
  sum_.covered = covered ? sum_.covered + (*covered ? 1 : 0) : -1;
  const auto add_null = [&](std::optional<double>& sum, int& rows,
                            const std::optional<double>& seconds) {
    if (seconds) sum = sum.value_or(0) + std::abs(*seconds / point.step_s - 1), ++rows;
  };
  add_null(sum_.constant_rate, of_constant_rate_, constant_rate_s);
  add_null(sum_.one_efficiency, of_one_efficiency_, one_efficiency_s);
}

Mean MeanOf::mean() const {
  Mean m = sum_;
  if (m.rows == 0) return m;
  m.mean /= m.rows, m.bias /= m.rows;
  if (m.covered >= 0) m.covered /= m.rows;
  if (m.constant_rate) *m.constant_rate /= of_constant_rate_;
  if (m.one_efficiency) *m.one_efficiency /= of_one_efficiency_;
  return m;
}

std::vector<Mean> means(const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, bool> kinds;
  for (const Row& r : rows)
    if (r.skipped.empty() && !r.point->poor()) kinds[{r.point->source, r.point->gpu}] = true;
  std::vector<Mean> list;
  for (const auto& entry : kinds) {
    const auto& kind = entry.first;  // clang 14 captures no structured binding
    list.push_back(mean_of(kind.first + ", " + kind.second, rows, [&](const Row& r) {
      return !r.point->poor() && r.point->source == kind.first &&
             r.point->gpu == kind.second;
    }));
  }
  list.push_back(mean_of("all", rows, [](const Row& r) { return !r.point->poor(); }));
  list.push_back(mean_of("of these, well specified (good)", rows,
                         [](const Row& r) { return r.point->quality == "good"; }));
  list.push_back(scaling(rows));
  list.push_back(mean_of("fp8 products, which were not fitted", rows, [](const Row& r) {
    return r.point->poor() && r.point->software.fp8_products;
  }));
  list.push_back(mean_of("otherwise poor, which were not fitted", rows, [](const Row& r) {
    return r.point->poor() && !r.point->software.fp8_products;
  }));
  return list;
}

std::string text_table(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<14} {:<14} {:>5}  {:<34} {:>10} {:>10} {:>8}\n", "source",
                                 "GPU", "GPUs", "model", "measured s", "predicted", "error");
  for (const Row& r : rows) {
    const Point& p = *r.point;
    text += fmt::format("{:<14} {:<14.14} {:>5}  {:<34} {:>10.4g} ", p.source, p.gpu, p.gpus,
                        describe(p), p.step_s);
    text += r.skipped.empty()
                ? fmt::format("{:>10.4g} {:>+7.1f}%{}{}\n", r.predicted_s, 100 * r.error(),
                              r.in_fit ? "" : " not fitted", p.poor() ? " poor" : "")
                : fmt::format("not predicted: {}\n", r.skipped);
  }
  return text + means_text("|error| in %", means(rows));
}

std::string means_text(const std::string& first, const std::vector<Mean>& means) {
  const bool parts = !means.empty() && means.front().parts > 0;
  const auto columns = [&](const auto& name, const auto& of, const auto& rows) {
    return fmt::format("{:<44}{} {:>5} ", name, parts ? fmt::format(" {:>5}", of) : "", rows);
  };
  std::string text =
      '\n' + columns(first, "parts", "rows") +
      fmt::format("{:>7} {:>7} {:>7} {:>9} {:>14} {:>15}\n", "mean", "worst", "bias", "interval",
                  "constant rate", "one efficiency");
  for (const Mean& m : means)
    if (m.rows > 0)
      text += columns(m.name, m.parts, m.rows) +
              fmt::format("{:>7.1f} {:>7.1f} {:>+7.1f} {:>9} {:>14} {:>15}\n", 100 * m.mean,
                          100 * m.worst, 100 * m.bias, covered(m), percent(m.constant_rate),
                          percent(m.one_efficiency));
  return text;
}

std::string means_markdown(const std::string& first, const std::vector<Mean>& means) {
  const bool parts = !means.empty() && means.front().parts > 0;
  std::string text = fmt::format(
      "| {} |{} rows | mean error, % | worst | bias | in the interval, % | null: constant rate per "
      "GPU | null: one efficiency |\n| --- |{} --- | --- | --- | --- | --- | --- | --- |\n",
      first, parts ? " parts |" : "", parts ? " --- |" : "");
  for (const Mean& m : means)
    if (m.rows > 0)
      text += fmt::format("| {} |{} {} | {:.1f} | {:.1f} | {:+.1f} | {} | {} | {} |\n", m.name,
                          parts ? fmt::format(" {} |", m.parts) : "", m.rows, 100 * m.mean,
                          100 * m.worst, 100 * m.bias, covered(m), percent(m.constant_rate),
                          percent(m.one_efficiency));
  return text;
}

nlohmann::ordered_json means_json(const std::string& name, const std::vector<Mean>& means) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Mean& m : means) {
    Json row{{name, m.name}};
    if (m.parts > 0) row["parts"] = m.parts;
    row["rows"] = m.rows;
    row["mean_error"] = m.mean;
    row["worst_error"] = m.worst;
    row["bias"] = m.bias;
    row["covered"] = m.covered < 0 ? Json(nullptr) : Json(m.covered);
    row["constant_rate_error"] = optional_number(m.constant_rate);
    row["one_efficiency_error"] = optional_number(m.one_efficiency);
    list.push_back(std::move(row));
  }
  return list;
}

nlohmann::ordered_json json_table(const std::vector<Row>& rows) {
  using Json = nlohmann::ordered_json;
  Json file{{"unit", "seconds per step"},
            {"points", Json::array()},
            {"means", means_json("name", means(rows))}};
  for (const Row& r : rows) {
    const Point& p = *r.point;
    Json row{{"source", p.source},   {"gpu", p.gpu},         {"gpus", p.gpus},
             {"model", describe(p)}, {"quality", p.quality}, {"measured", p.step_s}};
    if (r.skipped.empty()) {
      row["predicted"] = r.predicted_s;
      row["error"] = r.error();
      row["low"] = r.low_s;
      row["high"] = r.high_s;
    } else {
      row["predicted"] = nullptr;
      row["error"] = nullptr;
      row["skipped"] = r.skipped;
    }
    row["in_fit"] = r.in_fit;
    row["constant_rate"] = optional_number(r.constant_rate_s);
    row["one_efficiency"] = optional_number(r.one_efficiency_s);
    file["points"].push_back(std::move(row));
  }
  return file;
}

std::string picture(const std::vector<Row>& rows) {
  constexpr double width = 760, height = 360, left = 60, bottom = 40, top = 20, right = 20;
  constexpr double least = 1e2, most = 2e5, reach = 0.4;
  const auto x = [&](double rate) {
    const double part = std::log(std::clamp(rate, least, most) / least) / std::log(most / least);
    return left + part * (width - left - right);
  };
  const auto y = [&](double error) {
    const double part = (std::clamp(error, -reach, reach) + reach) / (2 * reach);
    return height - bottom - part * (height - bottom - top);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height);
  for (const double e : {-0.4, -0.2, -0.08, 0.0, 0.08, 0.2, 0.4})
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#{}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:+.0f} %</text>\n",
        left, width - right, y(e), y(e), e == 0 ? "444" : "ccc", left - 6, y(e) + 4, 100 * e);
  for (const double rate : {1e2, 1e3, 1e4, 1e5})
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n",
                       x(rate), height - bottom + 18, rate);
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured tokens per second and "
      "GPU; error of the predicted step time</text>\n",
      width / 2, height - 6);
  for (const Row& r : rows) {
    if (!r.skipped.empty() || r.point->poor()) continue;
    const bool h100 = r.point->gpu.rfind("H100", 0) == 0;
    const char* colour = r.point->source == "vtrain" ? "#999" : h100 ? "#c60" : "#06c";
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" stroke=\"{}\" fill=\"{}\"/>\n",
        x(rate_of(*r.point, r.point->step_s)), y(r.error()), colour, colour);
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"14\"><tspan fill=\"#06c\">A100</tspan> "
      "<tspan fill=\"#c60\">H100</tspan> <tspan fill=\"#999\">vTrain</tspan></text>\n</svg>\n",
      left + 8);
  return svg;
}

}  // namespace shardmark::points
