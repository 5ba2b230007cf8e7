// SPDX-License-Identifier: Apache-2.0
// The page of a sweep: it is complete and agrees with the table, and its drawings have each point
// once or say what is fixed.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <miniapp/tools/sweep/html/sweep_dims.hpp>
#include <miniapp/tools/sweep/table.hpp>
#include <tests/miniapp/tools/sweep/sweep_example.hpp>
#include <tests/support/markup.hpp>

namespace shardmark::test::sweep_page_test {
namespace {

using Values = std::vector<std::string>;

using namespace sweep_example;

TEST(SweepPage, IsCompleteAndAgreesWithTheTable) {
  const Sweep s = example();
  const std::string page = sweep_html(s);
  EXPECT_EQ(malformed(page), "");
  for (const char* outside : {"http:", "https:", "src=", "url(", "@import", "<script"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  const auto rows = rows_of_tables(page);
  for (const SweepPoint& p : s.points) {
    const bool there = std::any_of(rows.begin(), rows.end(), [&](const Values& row) {
      return row.size() > 4 && row[0] == std::to_string(p.at.ranks) &&
             row[1] == p.at.values[0].second && row[2] == p.at.values[1].second &&
             row[3].starts_with(to_string(p.state)) &&
             (!p.plan || row[4] == std::to_string(p.plan->calls()));
    });
    EXPECT_TRUE(there) << p.at.name();
  }
  for (const char* drawing : {"Over <code>x.reduce_bucket_size", "Over <code>x.stage",
                              "Over <code>ranks", "aria-label=\"Memory"})
    EXPECT_NE(page.find(drawing), std::string::npos) << drawing;
}

TEST(SweepPage, ListsThePredictionOfEachPoint) {
  Sweep s = example();
  s.planned = true;
  for (SweepPoint& p : s.points) {
    p.run.reset();
    if (p.plan) p.predicted.emplace().step_s = 0.5;
  }
  const std::string page = sweep_html(s);
  EXPECT_NE(page.find("predicted ms</th>"), std::string::npos);
  const auto rows = rows_of_tables(page);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(),
                          [](const Values& row) {
                            return std::find(row.begin(), row.end(), "500.00") != row.end();
                          }),
            std::count_if(s.points.begin(), s.points.end(),
                          [](const SweepPoint& p) { return p.predicted.has_value(); }));
}

TEST(SweepDrawings, DistinguishNumbersFromNames) {
  EXPECT_EQ((html::numbers_of(Axis{"a.bucket", {"1e6", "5"}})), (std::vector<double>{1e6, 5}));
  EXPECT_TRUE((html::numbers_of(Axis{"zero_optimization.stage", {"0", "1"}}).empty()));
  EXPECT_TRUE((html::numbers_of(Axis{"a", {"true", "false"}}).empty()));
  EXPECT_TRUE((html::numbers_of(Axis{"a", {"1", "auto"}}).empty()));
}

// Steps of one factor are sizes, whatever their range is.
TEST(SweepDrawings, HaveLogarithmicAxesForPowers) {
  const auto base = [](const Values& values) {
    const Axis dim{"a.bucket", values};
    html::SeriesSet series{{{"", std::vector<const SweepPoint*>(values.size())}}, ""};
    return html::curves_chart(dim, series, {"calls", "calls", "", {}}).x.log_base;
  };
  EXPECT_EQ(base({"4e8", "1e8", "2e8"}), 10);
  EXPECT_EQ(base({"2", "8", "16"}), 10);
  EXPECT_EQ(base({"1", "20"}), 10) << "more than a decade";
  EXPECT_EQ(base({"1", "2", "3"}), 0);
  EXPECT_EQ(base({"1", "2"}), 0);
  EXPECT_EQ(base({"0", "1", "2"}), 0);
}

TEST(SweepDrawings, NeverJoinNames) {
  const Sweep s = example();
  const auto dims = html::dims_of(s);
  const html::Chart chart = html::bars_chart(dims[1], html::series_over(s, dims, 1),
                                             {"t", "u", "", [](const SweepPoint&) { return 1.0; }});
  EXPECT_EQ(draw(chart, html::chart_width).find("<path"), std::string::npos);
}

TEST(SweepDrawings, SayTheirValuesInWords) {
  const Sweep s = example();
  const auto dims = html::dims_of(s);
  html::SweepFigure memory{"t", "GiB", "", [](const SweepPoint&) { return 3.0; }};
  memory.parts = [](const SweepPoint&) {
    return std::vector<html::BarPart>{{"work", "workspace", 32.0 / (1 << 30)}};
  };
  memory.unit_bytes = 1 << 30;
  const std::string chart =
      draw(html::bars_chart(dims[1], html::series_over(s, dims, 1), memory), html::chart_width);
  EXPECT_NE(chart.find(": 3 GiB, workspace 32 B"), std::string::npos) << chart;
}

TEST(SweepPage, HasADotForEachPointWithMemoryAndTime) {
  Sweep s = example();
  std::size_t ran_points = 0;
  for (SweepPoint& p : s.points)
    if (p.run) p.run->step_p50_s = 0.1 * static_cast<double>(++ran_points);
  const std::string page = sweep_html(s);
  const std::size_t begin = page.find("against time\">");
  ASSERT_NE(begin, std::string::npos);
  const std::string chart = page.substr(begin, page.find("</svg>", begin) - begin);
  std::size_t dots = 0;
  for (std::size_t at = chart.find("<circle"); at != std::string::npos;
       at = chart.find("<circle", at + 1))
    ++dots;
  EXPECT_EQ(dots, ran_points);
  EXPECT_NE(chart.find("<title>reduce_bucket_size "), std::string::npos) << "named by its values";
  EXPECT_NE(page.find("budget: 1 GiB"), std::string::npos);
}

TEST(SweepDrawings, HaveEachPointOnceOrSayWhatIsFixed) {
  const Sweep s = example();
  const auto dims = html::dims_of(s);
  ASSERT_EQ(dims.size(), 3U);
  const html::SeriesSet over_buckets = html::series_over(s, dims, 0);
  EXPECT_EQ(over_buckets.list.size(), 4U);
  EXPECT_EQ(over_buckets.held, "");
  std::set<const SweepPoint*> drawn;
  for (const auto& series : over_buckets.list)
    for (const SweepPoint* p : series.points) drawn.insert(p);
  EXPECT_EQ(drawn.size(), s.points.size());
  EXPECT_FALSE(drawn.contains(nullptr));

  Sweep wide = s;
  wide.axes.push_back({"y", {"1", "2", "3", "4", "5", "6", "7"}});
  const auto more = html::dims_of(wide);
  const html::SeriesSet held = html::series_over(wide, more, 0);
  EXPECT_LE(held.list.size(), html::most_series);
  EXPECT_EQ(held.held, "ranks 1, y 1");
}

}  // namespace
}  // namespace shardmark::test::sweep_page_test
