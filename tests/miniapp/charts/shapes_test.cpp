// SPDX-License-Identifier: Apache-2.0
// Rules of what all charts are drawn with: ticks are round, curves and areas have the given points,
// and a curve that is thinned keeps its extremes.
#include <algorithm>

#include <gtest/gtest.h>

#include <miniapp/charts/axis.hpp>
#include <miniapp/charts/svg.hpp>

namespace shardmark::test::shapes_test {
namespace {

using namespace html;

TEST(Shapes, ticks_are_round_and_within) {
  EXPECT_EQ(ticks(0, 10, 6), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 5, 10}));
  EXPECT_EQ(ticks(1, 3, 11, 1), (std::vector<double>{1, 2, 3})) << "no fractions of steps";
  EXPECT_EQ(ticks(7, 7, 5), (std::vector<double>{7}));
  EXPECT_EQ(tick_text(0.25, 0.05), "0.25");
  EXPECT_EQ(tick_text(3, 1), "3");
  EXPECT_EQ(tick_text(0, 0.5), "0");
}

TEST(Shapes, curves_and_areas_have_the_given_points) {
  Svg svg(100, 50, "x");
  svg.curve({{1, 2}, {3, 4}, {5, 6}}, "a");
  svg.curve({{1, 2}, {3, 4}}, "b", true);
  svg.area({{1, 10}, {2, 20}}, {{1, 30}, {2, 40}}, 9, "c");
  const std::string text = svg.str();
  EXPECT_NE(text.find("M1.0 2.0L3.0 4.0L5.0 6.0"), std::string::npos) << text;
  EXPECT_NE(text.find("M1.0 2.0H3.0V4.0\""), std::string::npos) << text;
  EXPECT_NE(text.find("M1.0 10.0H2.0V20.0H9.0V40.0H2.0V30.0H1.0Z"), std::string::npos) << text;
}

TEST(Shapes, thinned_curves_keep_their_extremes) {
  std::vector<Point> points;
  for (int i = 0; i < 1000; ++i)
    points.push_back({static_cast<double>(i), i % 10 == 3 ? -5.0 : 1.0});
  points[517].y = 99;
  const auto kept = thinned(points, 10);
  EXPECT_LE(kept.size(), 40U);
  const auto has = [&](double x, double y) {
    return std::any_of(kept.begin(), kept.end(),
                       [&](const Point& p) { return p.x == x && p.y == y; });
  };
  EXPECT_TRUE(has(0, 1) && has(999, 1) && has(517, 99));
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [](const Point& p) { return p.y == -5; }));
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(),
                             [](const Point& a, const Point& b) { return a.x < b.x; }));
}

}  // namespace
}  // namespace shardmark::test::shapes_test
