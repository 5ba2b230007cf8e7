// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed config is filled with the values that Hugging Face's own code fills in, and refused
// where that code refuses it, naming every value that contradicts. tests/data/hf_config_cases.json
// has configs as tutorials, documents and issues have them, written anew, with what transformers
// 5.23 and Accelerate 1.15 made of them.
#include <io/hf/config_filler.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::config_filler_test {
namespace {

Json cases() {
  return read_json_file(std::string(SHARDMARK_TESTS) + "/data/hf_config_cases.json",
                        JsonRules::deck)["cases"];
}

Json fill(Origin& origin, const Json& c) {
  ModelSpec model;
  if (c["hidden"].is_number()) model.hidden = c["hidden"].get<std::int64_t>();
  const Json section = c.value("hf", Json());
  std::optional<HfArguments> hf;
  if (section.is_object()) hf = read_hf(KeyReader(origin, section, "hf"));
  return fill_config(origin, c["deepspeed"], {hf ? &*hf : nullptr, &model, c["ranks"].get<int>()});
}

// Every value of `expected` is in `filled`. Accelerate also writes sections that ask for nothing,
// for which ShardMark has no entry.
void expect_within(const Json& expected, const Json& filled, const std::string& path) {
  for (const auto& item : expected.items()) {
    const std::string key = join_key(path, item.key());
    const Json& value = item.value();
    const bool idle = value.is_null() || value == Json{{"enabled", false}} ||
                      (value.is_object() && value.value("device", "") == "none");
    if (!filled.contains(item.key())) {
      EXPECT_TRUE(idle) << key << " is absent, but should be " << value;
    } else if (value.is_object()) {
      expect_within(value, filled[item.key()], key);
    } else {
      EXPECT_EQ(filled[item.key()], value) << key;
    }
  }
}

// Every value that should contradict is named with what it should be, and no other is.
void expect_mismatches(const std::string& message, const Json& keys) {
  expect_says(message, {"refuses", "hf"});
  for (const Json& key : keys) expect_says(message, {key.get<std::string>() + " = "});
  std::size_t count = 0;
  for (auto at = message.find(", but "); at != std::string::npos;
       at = message.find(", but ", at + 1))
    ++count;
  EXPECT_EQ(count, keys.size()) << message;
}

TEST(ConfigFiller, fills_and_refuses_as_hugging_face_does) {
  const Json all = cases();
  ASSERT_GE(all.size(), 30u);
  for (const Json& c : all) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const Json& expected = c["expected"];
    Origin origin("d.json");
    Json filled;
    std::string message;
    try {
      filled = fill(origin, c);
    } catch (const DeckError& error) {
      message = error.what();
    }
    if (expected["outcome"] == "refused") {
      ASSERT_NE(message, "") << filled;
      if (!expected["mismatches"].empty()) expect_mismatches(message, expected["mismatches"]);
      if (expected.contains("says")) expect_says(message, {expected["says"].get<std::string>()});
    } else {
      ASSERT_EQ(message, "");
      expect_within(expected["config"], filled, "");
    }
  }
}

}  // namespace
}  // namespace shardmark::test::config_filler_test
