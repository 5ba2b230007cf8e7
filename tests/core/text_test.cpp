// SPDX-License-Identifier: Apache-2.0
// Rules of how numbers and names are written for people, at the bounds between units.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <core/printable.hpp>
#include <core/text.hpp>

namespace shardmark::test::text_test {
namespace {

TEST(Text, NamesOfFilesKeepEverythingButFolderAndJson) {
  for (const auto& [path, name] : {std::pair{"inputs/gpt2-1.5b.json", "gpt2-1.5b"},
                                   {"gpt2-1.5b", "gpt2-1.5b"},
                                   {"a.json/b.yaml", "b.yaml"},
                                   {".json", ""}})
    EXPECT_EQ(name_of_file(path), name) << path;
}

TEST(Text, ListsAndCountsReadAsText) {
  EXPECT_EQ(plural(1, "rank"), "1 rank");
  EXPECT_EQ(plural(0, "rank"), "0 ranks");
  EXPECT_EQ(plural(2, "rank"), "2 ranks");
  EXPECT_EQ(plural(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(plural(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(join(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(join(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(lower_case("A-Z\xc3\x84"), "a-z\xc3\x84");
  EXPECT_EQ(csv_quoted(R"(a "b", c)"), R"("a ""b"", c")");
}

TEST(Text, BytesHaveFourDigitsInPowersOf1024) {
  for (const auto& [bytes, text] : {std::pair{std::int64_t{0}, "0 B"},
                                    {1023, "1023 B"},
                                    {1024, "1 KiB"},
                                    {1536, "1.5 KiB"},
                                    {(std::int64_t{1} << 30) * 5 / 4, "1.25 GiB"},
                                    {std::int64_t{1} << 50, "1024 TiB"},
                                    {-2048, "-2 KiB"}})
    EXPECT_EQ(human_bytes(bytes), text);
}

TEST(Text, TimesHaveTheUnitThatSuits) {
  for (const auto& [seconds, text] : {std::pair{0.0, "0 s"},
                                      {1.234, "1.23 s"},
                                      {0.0123, "12.3 ms"},
                                      {450e-6, "450 \u00b5s"},
                                      {std::numeric_limits<double>::infinity(), "\u2013"},
                                      {std::nan(""), "\u2013"}})
    EXPECT_EQ(duration(seconds), text);
  for (const auto& [seconds, text] : {std::pair{42.4, "42 s"},
                                      {59.6, "1:00 min"},
                                      {185.0, "3:05 min"},
                                      {5400.0, "1:30 h"},
                                      {-3.0, "0 s"}})
    EXPECT_EQ(clock_time(seconds), text);
}

TEST(Text, WhatIsCutHasWholeCharactersAndSaysSo) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
  EXPECT_EQ(printable("\u00b5\u00b5\u00b5\u00b5\u00b5\u00b5", 6),
            "\u00b5\u00b5\u00b5\u00b5\u00b5\u00b5");
  EXPECT_EQ(printable("\u00b5\u00b5\u00b5\u00b5\u00b5\u00b5\u00b5", 6), "\u00b5\u00b5\u00b5...");
  EXPECT_EQ(printable("\n\n\n", 6), R"(\n\n\n)");
  EXPECT_EQ(printable("\n\n\n\n", 5), R"(\n...)");
  for (const char byte : {'\x80', '\xff', '\0'})
    EXPECT_EQ(printable(std::string(1000, byte), 80).size(), 80U);
}

TEST(Text, ColumnsAreAsWideAsTheirCellsInCharacters) {
  const std::vector<std::vector<std::string>> rows{{"", "time", "loss"},
                                                   {"rank 10", "7 \u00b5s", ""}};
  EXPECT_EQ(in_columns(rows), (std::vector<std::string>{"           time  loss",  //
                                                        "  rank 10  7 \u00b5s"}));
  EXPECT_EQ(in_columns(rows, {.left = 2, .gap = "|", .indent = ""}),
            (std::vector<std::string>{"       |time|loss", "rank 10|7 \u00b5s|"}));
}

}  // namespace
}  // namespace shardmark::test::text_test
