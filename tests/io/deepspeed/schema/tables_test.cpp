// SPDX-License-Identifier: Apache-2.0
// Rules of the tables of keys: a key takes its own default, refuses a value of another type, and
// converts what DeepSpeed converts; no spelling is in a table twice.
#include <set>

#include <gtest/gtest.h>

#include <io/deepspeed/schema/key_table.hpp>
#include <io/deepspeed/schema/values.hpp>

namespace shardmark::test::tables_test {
namespace {

TEST(KeyTables, every_key_takes_its_default_and_refuses_another_type) {
  for (const char* path : {"zero_optimization", "zero_optimization.offload_param",
                           "zero_optimization.offload_optimizer", "fp16", "bf16"})
    for (const Key& key : ds_section(path).keys) {
      SCOPED_TRACE(std::string(key.name));
      EXPECT_TRUE(coerce(key, key.default_value(), true)) << "its own default";
      if (key.type != KeyType::any) {
        EXPECT_FALSE(coerce(key, Json::array({Json::array()}), true));
      }
      if (key.type == KeyType::integer) {
        const std::int64_t good = key.words.empty() ? 1000 : 2;
        for (const Json& v : {Json(good), Json(double(good)), Json(std::to_string(good))})
          EXPECT_EQ(coerce(key, v, true), Json(good)) << v;
        EXPECT_FALSE(coerce(key, 1000.5, true));
        EXPECT_FALSE(coerce(key, "many", true));
        EXPECT_FALSE(coerce(key, "5e8", true)) << "an integer in quotes has no exponent";
        EXPECT_FALSE(coerce(key, std::to_string(good), false)) << "only config models coerce";
      }
      if (key.type == KeyType::boolean) {
        EXPECT_EQ(coerce(key, "true", true), Json(true));
        EXPECT_EQ(coerce(key, 0, true), Json(false));
        EXPECT_FALSE(coerce(key, 2, true));
        EXPECT_FALSE(coerce(key, nullptr, true));
      }
    }
}

TEST(KeyTables, no_spelling_is_in_a_table_twice) {
  for (const Section& section : ds_sections()) {
    std::set<std::string_view> seen;
    for (const Key& key : section.keys) {
      EXPECT_TRUE(seen.insert(key.name).second) << key.name;
      if (!key.alias.empty()) {
        EXPECT_TRUE(seen.insert(key.alias).second) << key.alias;
      }
    }
  }
}

}  // namespace
}  // namespace shardmark::test::tables_test
