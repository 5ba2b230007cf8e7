// SPDX-License-Identifier: Apache-2.0
// Charts as data: where axes end, what is logarithmic, and what is left out and said in words.
#include <cmath>

#include <gtest/gtest.h>

#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <tests/support/pattern.hpp>

namespace shardmark::test::chart_test {
namespace {

using namespace html;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Chart over(std::vector<Datum> data, Curve::Form form = Curve::Form::line) {
  return {"x", {"x"}, {"y"}, 260, {}, {}, {{"series0", "a curve", std::move(data), form}}};
}

// The plot is from 64 to 944, so a factor of ten of two has half of the width.
TEST(Chart, equal_factors_are_equally_long_on_logarithmic_axes) {
  Chart chart = over({{1, 1}, {10, 2}, {100, 3}});
  chart.x.log_base = 10;
  chart.x.low = 1, chart.x.high = 100;
  EXPECT_FALSE(find_matches(draw(chart, chart_width), "M64.0 [0-9.]+L504.0 [0-9.]+L944.0").empty());
  chart.x.log_base = 0;
  EXPECT_TRUE(find_matches(draw(chart, chart_width), "L504.0").empty());
}

TEST(Chart, logarithmic_ticks_are_powers_or_round_values) {
  EXPECT_EQ(power_ticks(1, 100, 7, 10), (std::vector<double>{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(power_ticks(1, 1e4, 5, 10), (std::vector<double>{1, 10, 100, 1000, 10000}));
  EXPECT_EQ(power_ticks(3, 40, 7, 2), (std::vector<double>{4, 8, 16, 32}));
  EXPECT_GE(power_ticks(210, 400, 7, 10).size(), 2U) << "a narrow range has ticks, too";
}

TEST(Chart, a_level_is_drawn_unless_it_would_flatten_the_rest) {
  Chart chart = over({{0, 1}, {1, 2}});
  chart.levels = {{4, "limit", "budget: 4 GiB"}};
  EXPECT_EQ(find_matches(draw(chart, chart_width), "<line [^>]*class=\"limit\"").size(), 1U);
  chart.levels[0].at = 400;
  const std::string far = draw(chart, chart_width);
  EXPECT_EQ(find_matches(far, "<line [^>]*class=\"limit\"").size(), 0U);
  EXPECT_TRUE(has(far, "budget: 4 GiB, far above this drawing")) << far;
}

// The plot is from 34 to 224 in height: each dot lies in it at its own place, and the ends of the
// axis, which were given for the others, are those of the dots.
TEST(Chart, ends_that_are_given_give_way_to_what_lies_beyond_them) {
  for (const int base : {0, 10}) {
    Chart chart = over({{1, 0.5}, {2, 5}, {3, 100}, {4, 300}}, Curve::Form::dots);
    chart.y.log_base = base;
    chart.x.low = 2, chart.x.high = 3;
    chart.y.low = 1, chart.y.high = 10;
    const auto dots =
        find_matches(draw(chart, chart_width), "<circle cx=\"([0-9.-]+)\" cy=\"([0-9.-]+)\"");
    ASSERT_EQ(dots.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(std::stod(dots[i][1]), 64 + 880.0 * static_cast<double>(i) / 3, 0.1);
      EXPECT_GT(std::stod(dots[i][2]), 34);
      EXPECT_LT(std::stod(dots[i][2]), 224.1);
      if (i > 0) {
        EXPECT_LT(std::stod(dots[i][2]), std::stod(dots[i - 1][2]) - 1);
      }
    }
  }
}

TEST(Chart, values_below_0_have_room_on_both_sides) {
  const auto dots = find_matches(draw(over({{0, -3}, {1, -1}}, Curve::Form::dots), chart_width),
                                 "<circle cx=\"[0-9.]+\" cy=\"([0-9.-]+)\"");
  ASSERT_EQ(dots.size(), 2U);
  EXPECT_LT(std::stod(dots[0][1]), 224 - 5);
  EXPECT_GT(std::stod(dots[1][1]), 34 + 5);
}

TEST(Chart, a_logarithmic_axis_has_no_place_for_0) {
  Chart chart = over({{0, 1}, {1, 0}, {2, 2}, {3, -1}}, Curve::Form::dots);
  chart.y.log_base = 10;
  const std::string text = draw(chart, chart_width);
  EXPECT_EQ(find_matches(text, "<circle ").size(), 2U) << text;
  EXPECT_FALSE(has(text, "inf") || has(text, "nan")) << text;
}

TEST(Chart, what_is_not_finite_leaves_a_gap) {
  const std::string text = draw(over({{0, 1}, {1, 2}, {2, NAN}, {3, 1}, {4, 1}}), chart_width);
  EXPECT_EQ(find_matches(text, "<path ").size(), 2U);
  EXPECT_EQ(draw(over({{0, NAN}}), chart_width), "");
}

TEST(Chart, labels_never_lie_on_each_other) {
  Chart chart =
      over({{0, 1, "", "one"}, {0, 1, "", "two"}, {1, 2, "", "three"}}, Curve::Form::dots);
  const std::string text = draw(chart, chart_width);
  EXPECT_TRUE(has(text, ">one</text>") && has(text, ">three</text>")) << text;
  EXPECT_FALSE(has(text, ">two</text>"));
  EXPECT_EQ(find_matches(text, "<circle ").size(), 3U) << "the dots are all there";
}

TEST(Chart, texts_below_an_axis_never_overlap) {
  Chart chart = over({{0, 1}, {1, 1}});
  chart.x.ticks = {{0, "first"}, {0.01, "too close"}, {1, "last"}};
  const std::string text = draw(chart, chart_width);
  EXPECT_TRUE(has(text, ">first</text>") && has(text, ">last</text>"));
  EXPECT_FALSE(has(text, "too close"));
}

// A bar of 3 and a bar of 1 on one axis.
TEST(Chart, bars_are_as_high_as_their_values) {
  Chart chart{"x", {"names"}, {"y"}};
  chart.bars = {{"a", {{{{"work", "w", 3}}}}},
                {"b", {{{{"work", "w", 0.5}, {"waiting", "v", 0.5}}}}}};
  const auto boxes =
      find_matches(draw(chart, chart_width), "<rect [^>]*height=\"([0-9.]+)\" class=\"w");
  ASSERT_EQ(boxes.size(), 3U);
  EXPECT_NEAR(std::stod(boxes[0][1]), 6 * std::stod(boxes[1][1]), 0.5);
  EXPECT_EQ(boxes[1][1], boxes[2][1]);
}

// Names of decks and keys may have letters of several bytes; 880 units hold 125 characters of 7.
TEST(Chart, room_is_counted_in_characters) {
  std::string name;
  for (int i = 0; i < 100; ++i) name += "é";
  Chart chart = over({{0, 1}, {1, 2}});
  chart.bands = {{0, 1, name}};
  EXPECT_TRUE(has(draw(chart, chart_width), name + "</text>"));
  EXPECT_EQ(text_width(name, chart_width), 700);
}

// Two groups of 20 bars are 15.8 units wide each at most: too narrow for three digits.
// The plot ends 16 units before the drawing; the text in the middle of its end is 70 units wide.
TEST(Chart, texts_below_an_axis_stay_in_the_drawing) {
  Chart chart = over({{0, 1}, {1, 1}});
  chart.x.ticks = {{1, "ten places"}};
  const auto found =
      find_matches(draw(chart, chart_width), "<text x=\"([0-9.]+)\"[^>]*>ten places<");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LE(std::stod(found[0][1]) + text_width("ten places", chart_width) / 2, chart_width);
}

TEST(Chart, all_bars_have_figures_or_none_has) {
  Chart chart{"x", {}, {"y"}};
  const auto figures = [&](std::size_t bars) {
    chart.bars = {{"a", {}}, {"b", {}}};
    for (BarGroup& group : chart.bars)
      for (std::size_t i = 0; i < bars; ++i)
        group.bars.push_back({{{"work", "w", i % 2 == 0 ? 322.0 : 322.7}}});
    return find_matches(draw(chart, chart_width), "class=\"strong\">(32[.0-9]*)<");
  };
  EXPECT_EQ(figures(2).size(), 4U);
  EXPECT_EQ(figures(2).at(1)[1], "322.7");
  const auto shorter = figures(11);  // 28.8 units: room for three digits, not for a point and four
  ASSERT_EQ(shorter.size(), 22U);
  EXPECT_EQ(shorter.at(1)[1], "323");
  EXPECT_EQ(figures(20).size(), 0U);
}

TEST(Chart, names_below_an_axis_may_have_two_lines) {
  Chart chart{"x", {}, {"y"}};
  chart.bars = {{"InfiniBand\n8 x 400 Gb/s", {{{{"work", "w", 3}}}}}};
  const std::string text = draw(chart, chart_width);
  EXPECT_TRUE(has(text, ">InfiniBand</text>") && has(text, ">8 x 400 Gb/s</text>")) << text;
}

TEST(Cards, name_each_cell_of_a_wide_table) {
  Table table{"", {"<b>place</b>", "median"}, {{"1", "2"}}};
  EXPECT_FALSE(has(to_html(table), "data-label"));
  table.head.resize(5, "x");
  EXPECT_TRUE(has(to_html(table), "<td data-label=\"place: \">1</td>")) << to_html(table);
}

}  // namespace
}  // namespace shardmark::test::chart_test
