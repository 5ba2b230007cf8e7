// SPDX-License-Identifier: Apache-2.0
// Rule: the page of a calibration shows every point that was left out at its own error, however
// large the error is.
#include <gtest/gtest.h>

#include <miniapp/tools/calibrate/calibrate.hpp>
#include <tests/support/pattern.hpp>

namespace shardmark::test::calibration_page_test {
namespace {

TEST(CalibrationPage, HasEachPointAtItsOwnError) {
  Calibration c;
  for (const double ratio : {0.1, 0.5, 1.0, 1.7, 3.0, 9.0})
    c.left_out.push_back({"products fp32 nt", 1e-3, ratio * 1e-3, 1});
  const std::string page = calibration_html(c);
  const auto dots = find_matches(page, "<circle cx=\"[0-9.]+\" cy=\"([0-9.-]+)\"");
  ASSERT_EQ(dots.size(), 2 * c.left_out.size()) << "a drawing for wide and one for narrow screens";
  for (std::size_t i = 1; i < c.left_out.size(); ++i)
    EXPECT_LT(std::stod(dots[i][1]), std::stod(dots[i - 1][1]) - 5)
        << "point " << i << " lies above the one before, whose error is smaller";
  EXPECT_FALSE(find_matches(page, ">\\+700</text>").empty()) << "8 times the measured time";
  EXPECT_FALSE(find_matches(page, ">-50</text>").empty()) << "half of it";
}

}  // namespace
}  // namespace shardmark::test::calibration_page_test
