// SPDX-License-Identifier: Apache-2.0
// Labels have one spelling, and parsing inverts it for every tier, category and name.
#include <gtest/gtest.h>

#include <core/memory/label.hpp>

namespace shardmark::test::label_test {
namespace {

TEST(MemoryLabel, is_spelled_as_documented) {
  EXPECT_EQ(memory_label(Tier::host, Category::master, "block3"),
            "shardmark::host::master::block3");
}

TEST(MemoryLabel, parsing_inverts_writing) {
  for (const std::string name : {"param.block0", "", "with::separators::", "::", "white space"})
    for (const Tier t : all_values<Tier>)
      for (const Category c : all_values<Category>) {
        const MemoryLabel label{t, c, name};
        const std::string text = memory_label(label.tier, *label.category, label.name);
        EXPECT_EQ(parse_memory_label(text), label) << text;
      }
}

TEST(MemoryLabel, an_arena_has_a_tier_and_no_category) {
  EXPECT_EQ(arena_label(Tier::device), "shardmark::device::arena");
  const auto label = parse_memory_label(arena_label(Tier::host));
  ASSERT_TRUE(label);
  EXPECT_EQ(label->tier, Tier::host);
  EXPECT_FALSE(label->category);
}

TEST(MemoryLabel, foreign_text_is_no_label) {
  for (const char* text :
       {"", "shardmark", "shardmark::device", "shardmark::device::param",
        "shardmark::attic::param::x", "shardmark::device::parameter::x",
        "shardmark::param::device::x", "Kokkos::scratch", "other::device::param::x",
        " shardmark::device::param::x", "shardmark::device::adam_update::x"})
    EXPECT_FALSE(parse_memory_label(text)) << text;
}

}  // namespace
}  // namespace shardmark::test::label_test
