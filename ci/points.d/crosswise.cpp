// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <ci/points.d/crosswise.hpp>
#include <ci/points.d/null_models.hpp>
#include <nlohmann/json.hpp>

#include <core/percentile.hpp>
#include <core/plan/price/step_interval.hpp>

namespace shardmark::points {
namespace {

using Key = std::function<std::string(const Point&)>;

double miss(const LeftOut& x) {
  return std::abs(std::log(x.predicted_s / x.point->step_s));
}

// The seconds if the point reached the mean efficiency of the others, of its generation if it can.
double one_efficiency(const Point& p, const std::vector<const Case*>& others) {
  for (const bool any : {false, true}) {
    double sum = 0;
    int rows = 0;
    for (const Case* c : others)
      if (any || generation_of(*c->point) == generation_of(p))
        sum += std::log(part_of_peak(*c->point)), ++rows;
    if (rows > 0) return p.step_s * part_of_peak(p) / std::exp(sum / rows);
  }
  return p.step_s;
}

std::vector<LeftOut> without(const std::string& part, const Key& key,
                             const std::vector<Case>& cases,
                             const std::map<std::string, Figures>& fitted,
                             const std::vector<Point>& points,
                             std::map<std::string, Figures>& found) {
  std::vector<const Case*> others;
  for (const Case& c : cases)
    if (key(*c.point) != part) others.push_back(&c);
  found = refit(others, fitted);
  std::vector<LeftOut> list;
  for (const Case& c : cases) {
    if (key(*c.point) != part) continue;
    LeftOut x;
    x.point = c.point;
    x.part = part;
    x.predicted_s = seconds_with(c, figures_for(*c.point, found));
    x.host_share = std::max(0.0, c.slopes[launch_figure]);
    x.one_efficiency_s = one_efficiency(*c.point, others);
    x.constant_rate_s =
        constant_rate_seconds(points, static_cast<std::size_t>(c.point - points.data()));
    list.push_back(x);
  }
  return list;
}

// The part of a miss that the differences between hosts do not explain.
double unexplained(const LeftOut& x) {
  return std::sqrt(std::max(0.0, std::pow(miss(x), 2) - std::pow(host_error_90 * x.host_share, 2)));
}

// The miss that 9 of 10 points stay below in 9 of 10 other parts. Parts count alike, however many
// rows they have, because the part that is left out is one more part.
double reach_of(const std::vector<LeftOut>& points, const std::string& but) {
  std::map<std::string, std::vector<double>> misses;
  for (const LeftOut& x : points)
    if (x.part != but) misses[x.part].push_back(unexplained(x));
  std::vector<double> of_parts;
  for (const auto& [part, values] : misses) of_parts.push_back(percentile(values, 0.9));
  return percentile(of_parts, 0.9);
}

Way leave_out(const std::string& name, const Key& key, const std::vector<Case>& cases,
              const std::map<std::string, Figures>& fitted, const std::vector<Point>& points) {
  std::set<std::string> parts;
  for (const Case& c : cases) parts.insert(key(*c.point));
  Way way{name, {}, {}};
  for (const std::string& part : parts)
    for (LeftOut& x : without(part, key, cases, fitted, points, way.figures[part]))
      way.points.push_back(std::move(x));
  std::map<std::string, double> reach;
  for (const std::string& part : parts) reach[part] = reach_of(way.points, part);
  for (LeftOut& x : way.points) x.reach = std::hypot(reach[x.part], host_error_90 * x.host_share);
  return way;
}

Mean mean_of(const std::string& name, const std::vector<LeftOut>& points,
             const std::string& part = "") {
  MeanOf sum(name);
  std::set<std::string> parts;
  for (const LeftOut& x : points) {
    if (!part.empty() && x.part != part) continue;
    parts.insert(x.part);
    sum.add(*x.point, x.error(), x.covered(), x.constant_rate_s, x.one_efficiency_s);
  }
  Mean m = sum.mean();
  m.parts = static_cast<int>(parts.size());
  return m;
}

}  // namespace

bool LeftOut::covered() const {
  return miss(*this) <= reach;
}

std::vector<Way> crosswise(std::vector<Case>& cases, const std::vector<Point>& points) {
  const std::map<std::string, Figures> fitted = fit(cases);
  const auto by = [&](const char* name, const Key& key) {
    return leave_out(name, key, cases, fitted, points);
  };
  std::vector<Way> ways{
      by("one width", [](const Point& p) { return std::to_string(p.model.hidden); }),
      by("one number of layers", [](const Point& p) { return std::to_string(p.model.layers); }),
      by("one source", [](const Point& p) { return p.source; }),
      by("one kind of GPU", hardware_of),
      by("one generation of GPUs", [](const Point& p) { return generation_of(p); })};
  Way all{"nothing (the fit)", {}, {{"all", fitted}}};
  for (const LeftOut& x : ways.front().points) {
    LeftOut same = x;
    const auto c = std::find_if(cases.begin(), cases.end(),
                                [&](const Case& y) { return y.point == x.point; });
    same.predicted_s = x.point->step_s * std::exp(c->log_ratio);
    same.part = "all";
    all.points.push_back(same);
  }
  const double reach = reach_of(all.points, "");
  for (LeftOut& x : all.points) x.reach = std::hypot(reach, host_error_90 * x.host_share);
  ways.push_back(all);
  return ways;
}

std::vector<Mean> crossed_means(const std::vector<Way>& ways) {
  std::vector<Mean> list;
  for (const Way& way : ways) list.push_back(mean_of(way.name, way.points));
  for (const Way& way : ways) {
    if (way.name != "one source") continue;
    std::set<std::string> parts;
    for (const LeftOut& x : way.points) parts.insert(x.part);
    for (const std::string& part : parts) list.push_back(mean_of("source " + part, way.points, part));
  }
  return list;
}

nlohmann::ordered_json crosswise_json(const std::vector<Mean>& means,
                                      const std::vector<Way>& ways) {
  using Json = nlohmann::ordered_json;
  Json file{{"means", means_json("left_out", means)},
            {"figures", Json::array()},
            {"points", Json::array()}};
  for (const Way& way : ways)
    for (const auto& [part, groups] : way.figures)
      for (const auto& [group, figures] : groups) {
        Json fitted{{"left_out", way.name}, {"part", part}, {"generation", group}};
        for (std::size_t k = 0; k < fitted_figures; ++k)
          fitted[fitted_figure_list()[k].key] = std::exp(figures[k]);
        file["figures"].push_back(std::move(fitted));
      }
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
