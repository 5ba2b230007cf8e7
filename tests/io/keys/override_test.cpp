// SPDX-License-Identifier: Apache-2.0
// `--set`: its forms, what it can change, and what it refuses.
#include <io/keys/overrides.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::override_test {
namespace {

Json set(Json deck, const std::string& argument) {
  apply_override(deck, parse_override(argument));
  return deck;
}

TEST(Override, values_are_json_and_else_strings) {
  EXPECT_EQ(parse_override("a.b=3").value, 3);
  EXPECT_EQ(parse_override("a.b=5e8").value, 5e8);
  EXPECT_EQ(parse_override("a.b=true").value, true);
  EXPECT_EQ(parse_override("a.b=null").value, nullptr);
  EXPECT_EQ(parse_override("a.b=[1, {\"c\": 2}]").value, Json::parse("[1, {\"c\": 2}]"));
  EXPECT_EQ(parse_override("a.b=\"3\"").value, "3");
  EXPECT_EQ(parse_override("a.b=text.txt").value, "text.txt");
  EXPECT_EQ(parse_override("a.b=x=y").value, "x=y");
  EXPECT_EQ(parse_override("a.b=").value, "");
}

TEST(Override, sets_adds_and_makes_missing_sections) {
  const Json deck = Json::parse(R"({"a": {"b": 1}, "l": [10, {"c": 2}]})");
  EXPECT_EQ(set(deck, "a.b=5")["a"]["b"], 5);
  EXPECT_EQ(set(deck, "x.y.z=5")["x"]["y"]["z"], 5);
  EXPECT_EQ(set(deck, "l.0=5")["l"][0], 5);
  EXPECT_EQ(set(deck, "l[1].c=5")["l"][1]["c"], 5);
  EXPECT_EQ(set(deck, "a=5")["a"], 5);
}

TEST(Override, refuses_paths_that_lead_nowhere) {
  const Json deck = Json::parse(R"({"a": {"b": 1}, "l": [10]})");
  const struct {
    const char* argument;
    std::vector<std::string> says;
  } cases[] = {
      {"a.b.c=1", {"--set a.b.c=1", "a.b = 1", "not a section"}},
      {"l.1=1", {"--set l.1=1", "\"1\"", "use 0 to 0"}},
      {"l.x=1", {"\"x\"", "not an index"}},
      {"a.b", {"--set a.b", "key.path=value"}},
      {"=1", {"key.path=value"}},
      {"a..b=1", {"a..b", "empty"}},
      {"a={\"b\": 1, \"b\": 2}", {"--set", "twice"}},
      {"a=\xff", {"UTF-8"}},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>([&] { set(deck, c.argument); }), c.says);
}

TEST(Override, reaches_into_a_config_given_by_path) {
  const ScratchFolder folder;
  folder.write("ds.json",
               "{\"train_batch_size\": 6, # six\n \"zero_optimization\": {\"stage\": 1,},}");
  const std::string path = folder.write("d.json", good_deck);
  const std::string by_path = "deepspeed=ds.json";
  EXPECT_EQ(load_deck(path, {by_path}).zero.stage, 1);
  EXPECT_EQ(load_deck(path, {by_path, "deepspeed.zero_optimization.stage=2"}).zero.stage, 2);
  EXPECT_EQ(read_deck(path, {by_path}, DeckUse::run).config_file, folder.path("ds.json"));
}

TEST(Override, the_last_of_two_counts) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  EXPECT_EQ(load_deck(path, {"run.steps=7", "run.steps=9"}).run.steps, 9);
}

}  // namespace
}  // namespace shardmark::test::override_test
