// SPDX-License-Identifier: Apache-2.0
// A chart as a file of its own has everything in itself: title, legend and colours without
// variables.
#include <gtest/gtest.h>

#include <miniapp/charts/page.hpp>
#include <miniapp/charts/palette.hpp>
#include <tests/support/pattern.hpp>

namespace shardmark::test::picture_test {
namespace {

using namespace html;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Chart example() {
  Chart chart{"rates", {}, {"tokens/s"}};
  chart.bars = {{"a", {{{{"series0", "stage 0", 3, "three"}}}, {{{"series1", "stage 1", 1}}}}}};
  chart.levels = {{2, "limit", "the limit"}};
  chart.legend = {{"", "nothing else fits"}};
  return chart;
}

TEST(Picture, has_title_note_legend_and_drawing) {
  const std::string text = picture("Tom & Jerry", "a < b", example());
  EXPECT_TRUE(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << text;
  for (const char* words :
       {">Tom &amp; Jerry</text>", ">a &lt; b</text>", ">stage 0</text>", ">stage 1</text>",
        ">the limit</text>", ">nothing else fits</text>", "<title>three</title>"})
    EXPECT_TRUE(has(text, words)) << words << " in " << text;
  EXPECT_FALSE(has(text, "<div") || has(text, "<ul"));
}

TEST(Picture, needs_no_variables_of_a_page) {
  const std::string text = picture("t", "n", example());
  EXPECT_FALSE(has(text, "var("));
  for (const char* css : {"series0", "series1", "limit"})
    EXPECT_FALSE(find_matches(text, "line\\." + std::string(css) + ", path\\." + css +
                                        " \\{ stroke: #[0-9a-f]+ \\}")
                     .empty())
        << css;
  EXPECT_FALSE(has(text, "series2")) << "a colour that is not used";
}

// Pages and pictures take their colours from one list.
TEST(Picture, has_the_colours_of_the_pages) {
  const std::string page = document("t", "");
  for (const char* name : {"ink", "blue", "red"})
    EXPECT_TRUE(has(page, std::string("--") + name + ": " + std::string(light_colour(name)) + ";"));
  EXPECT_TRUE(has(page, ".series0 { --c: var(--blue) }"));
  EXPECT_TRUE(has(plain_class_rules("class=\"series0\""), std::string(light_colour("blue"))));
}

TEST(Picture, of_nothing_is_empty) {
  EXPECT_EQ(picture("t", "n", Chart{"x", {}, {}}), "");
}

}  // namespace
}  // namespace shardmark::test::picture_test
