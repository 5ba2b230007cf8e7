// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/table.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/calibrate/calibrate.hpp>

namespace shardmark {
namespace {

using namespace html;

constexpr double most_percent = 60;

double percent(const LeftOut& p) {
  return std::clamp(p.error() * 100, -most_percent, most_percent);
}

std::string residuals(const std::vector<LeftOut>& points) {
  Curve between{"series0", "between other points", {}, Curve::Form::dots};
  Curve outside{"series3", "outside of the others", {}, Curve::Form::dots};
  for (const LeftOut& p : points)
    (p.beyond > 1.01 ? outside : between)
        .data.push_back({p.seconds, percent(p),
                         fmt::format("{}: measured {}, interpolated {}", p.table,
                                     duration(p.seconds), duration(p.interpolated_s))});
  return to_html(Chart{"Error of interpolation over the measured time of each point",
                       {.unit = "measured time", .log_base = 10, .text = duration},
                       {.unit = "error, %", .low = -most_percent, .high = most_percent},
                       360,
                       {},
                       {},
                       {between, outside}});
}

std::string by_table(const std::vector<LeftOut>& points) {
  struct Sums {
    std::size_t count = 0;
    double error = 0, worst = 0;
  };
  std::map<std::string, Sums> tables;
  for (const LeftOut& p : points) {
    Sums& s = tables[p.table];
    ++s.count;
    s.error += std::abs(p.error());
    s.worst = std::max(s.worst, std::abs(p.error()));
  }
  Table table{
      "Points that were left out in turn", {"table", "points", "mean error", "largest"}, {}};
  for (const auto& [name, s] : tables)
    table.rows.push_back({escape(name), std::to_string(s.count),
                          fmt::format("{:.1f} %", s.error / static_cast<double>(s.count) * 100),
                          fmt::format("{:.1f} %", s.worst * 100)});
  return to_html(table);
}

std::string collectives(const Machine& m) {
  Table table{"Collectives", {"verb", "ranks", "bytes", "time", "GB/s of the array"}, {}};
  for (const NetworkLevel& level : m.network)
    for (const CollectiveTimes& t : level.collectives)
      for (const TimePoint& p : t.points)
        table.rows.push_back({fmt::format("{} {}", to_string(t.op), to_string(t.dtype)),
                              std::to_string(t.ranks), grouped(static_cast<std::int64_t>(p.size)),
                              duration(p.seconds), decimal(p.size / p.seconds * 1e-9, 2)});
  return table.rows.empty() ? std::string{} : to_html(table);
}

}  // namespace

std::string calibration_html(const Calibration& c) {
  std::string page =
      fmt::format("<header><h1>Calibration of {}</h1>\n<p>{}; {} in {}.</p>\n</header>\n",
                  escape(c.machine.name), escape(standing(c.machine)),
                  plural(c.machine.provenance.samples, "sample"), clock_time(c.seconds));
  page += "<h2>What interpolation says of points that it does not know</h2>\n";
  page += residuals(c.left_out) + by_table(c.left_out);
  page += "<h2>Collectives</h2>\n" + collectives(c.machine);
  return document(fmt::format("Calibration of {}: ShardMark", c.machine.name), page);
}

}  // namespace shardmark
