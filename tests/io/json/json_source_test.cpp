// SPDX-License-Identifier: Apache-2.0
// From text to JSON: what a deck may contain, what a DeepSpeed config may contain, and the messages
// for everything else.
#include <io/json/json_source.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::json_source_test {
namespace {

Json parse(const std::string& text, JsonRules rules = JsonRules::deck) {
  return parse_json(text, "x.json", rules);
}

TEST(JsonSource, a_deck_may_have_comments) {
  EXPECT_EQ(parse("{ // one\n \"a\": /* two */ [1, -2, 3.5, true, null, \"x // y\"] }"),
            Json::parse(R"({"a": [1, -2, 3.5, true, null, "x // y"]})"));
}

TEST(JsonSource, a_key_given_twice_is_refused_where_it_stands) {
  const auto text = "{\n \"m\": [ {}, {\n \"a\": 1,\n \"b\": 2, \"a\": 3 } ] }";
  for (const JsonRules rules : {JsonRules::deck, JsonRules::deepspeed})
    expect_says(message_of<DeckError>([&] { parse(text, rules); }),
                {"x.json", "m.1.a", "twice", "line 4", "remove"});
}

TEST(JsonSource, a_key_given_twice_makes_one_short_line) {
  const std::string key = R"("a\nb)" + std::string(5000, 'c') + '"';
  const std::string message =
      message_of<DeckError>([&] { parse("{" + key + ": 1, " + key + ": 2}"); });
  expect_says(message, {R"(x.json: a\nbcc)", "...: given twice"});
  EXPECT_LT(message.size(), 300u);
}

TEST(JsonSource, the_same_key_in_different_objects_is_fine) {
  EXPECT_EQ(parse(R"({"a": {"b": 1}, "c": {"b": 2}, "b": 3})").size(), 3u);
}

TEST(JsonSource, syntax_errors_name_line_and_column) {
  const struct {
    const char* text;
    const char* where;
  } cases[] = {
      {"{\n \"a\": 1,\n}", "line 3, column 1"},
      {"{\"a\" 1}", "line 1, column 6"},
      {"{\"a\": 1", "line 1"},
      {"{\"a\": 1} x", "line 1, column 10"},
      {"{\"a\": 1e999}", "line 1"},
      {"{\"a\": \"\xff\"}", "line 1"},
      {"{\"a\": /* open", "line 1"},
      {"{# hash\n}", "line 1, column 2"},
  };
  for (const auto& c : cases)
    expect_says(message_of<JsonSyntaxError>([&] { parse(c.text); }), {c.where, "not JSON"});
}

TEST(JsonSource, deep_nesting_is_refused_not_a_crash) {
  expect_says(message_of<DeckError>([] { parse(std::string(1'000'000, '[')); }),
              {"x.json", "64 levels"});
}

TEST(JsonSource, an_integer_beyond_64_bits_is_the_largest) {
  for (const JsonRules rules : {JsonRules::deck, JsonRules::deepspeed}) {
    EXPECT_EQ(parse("[100000000000000000000]", rules)[0],
              std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(parse("[-100000000000000000000]", rules)[0],
              std::numeric_limits<std::int64_t>::min());
    EXPECT_TRUE(parse("[1e20]", rules)[0].is_number_float());
  }
}

TEST(JsonSource, files_that_are_no_deck) {
  const ScratchFolder folder;
  const auto refuse = [&](const std::string& path, std::vector<std::string> parts) {
    parts.push_back(path);
    expect_says(message_of<DeckError>([&] { read_json_file(path, JsonRules::deck); }), parts);
  };
  refuse(folder.path("none.json"), {"no such file"});
  refuse(folder.path(), {"folder"});
  refuse(folder.write("empty.json", " \n"), {"empty"});
  refuse(folder.write("text.json", "hello"),
         {"line 1, column", "not JSON", "comments are allowed"});
  refuse(folder.write("list.json", "[1, 2]"), {"top level = [1,2]", "must be an object"});
  refuse(folder.write("binary.json", std::string("\x7f"
                                                 "ELF\0\1",
                                                 6)),
         {"line 1, column 1", "not JSON"});
  refuse("/dev/null", {"not a regular file"});
  if (::geteuid() != 0) {
    const std::string path = folder.write("secret.json", "{}");
    std::filesystem::permissions(path, std::filesystem::perms::none);
    refuse(path, {"cannot be read", "Permission denied"});
  }
}

}  // namespace
}  // namespace shardmark::test::json_source_test
