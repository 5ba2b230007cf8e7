// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/calibrate/calibrate.hpp>

namespace shardmark {
namespace {

using namespace html;

constexpr double least_span =
    1.6;  // what interpolation says over the measured time, and its inverse

// A ratio as a difference: "+100" of 2.
std::string percent_more(double ratio) {
  const double percent = (ratio - 1) * 100;
  return std::abs(percent) < 0.05 ? "0" : fmt::format("{:+.4g}", percent);
}

// Half and twice the measured time are equally far from it.
std::string residuals(const std::vector<LeftOut>& points) {
  Curve between{"series0", "between other points", {}, Curve::Form::dots};
  Curve outside{"series3", "outside of the others", {}, Curve::Form::dots};
  for (const LeftOut& p : points)
    (p.beyond > 1.01 ? outside : between)
        .data.push_back({p.seconds, p.interpolated_s / p.seconds,
                         fmt::format("{}: measured {}, interpolated {}", p.table,
                                     duration(p.seconds), duration(p.interpolated_s))});
  return to_html(Chart{"Error of interpolation over the measured time of each point",
                       {.unit = "measured time", .log_base = 10, .text = duration},
                       {.unit = "error, %",
                        .log_base = 2,
                        .low = 1 / least_span,
                        .high = least_span,
                        .text = percent_more},
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
  Table table{"", {"verb", "ranks", "bytes", "time", "GB/s of the array"}, {}};
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
