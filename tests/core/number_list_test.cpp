// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <core/text.hpp>

namespace shardmark::test::number_list_test {
namespace {

TEST(NumberList, ReadsWhatItWrites) {
  for (const std::string text : {"0", "0-3", "0-3,8", "1,3,5", "7,9-12,100-101"})
    EXPECT_EQ(format_numbers(parse_numbers(text)), text);
  EXPECT_EQ(parse_numbers("2,0-1,1\n"), (std::vector<int>{0, 1, 2}));
  for (const std::string text : {"", "\n", "a", "1-", "-1", "3-1", "1,,2", "0-99999999", "1 2"})
    EXPECT_TRUE(parse_numbers(text).empty()) << text;
}

}  // namespace
}  // namespace shardmark::test::number_list_test
