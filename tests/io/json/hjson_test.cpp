// SPDX-License-Identifier: Apache-2.0
// Rule: a DeepSpeed config by path is read as Hjson, like DeepSpeed reads it; what Hjson does not
// allow is refused with its position.
#include <io/json/json_source.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::hjson_test {
namespace {

Json parse(const std::string& text) {
  return parse_json(text, "x.json", JsonRules::deepspeed);
}

TEST(Hjson, json_is_hjson) {
  const std::string text =
      R"({"a": [1, -2.5, 3e12, true, false, null, "x \" \u00e9 \ud83d\ude00 \n"], "b": {"c": {}}})";
  EXPECT_EQ(parse(text), Json::parse(text));
}

TEST(Hjson, comments_and_commas_are_optional) {
  EXPECT_EQ(parse("# first\n{\"a\": 2, // two\n \"b\": [1, 2, /* x */ ], # three\n \"c\": {\"s\": "
                  "\"#,}//\",},}"),
            Json::parse(R"({"a": 2, "b": [1, 2], "c": {"s": "#,}//"}})"));
  EXPECT_EQ(parse("{a: 1\nb: [1\n2\n3], c: [\n]\n}"),
            Json::parse(R"({"a": 1, "b": [1, 2, 3], "c": []})"));
}

TEST(Hjson, the_root_needs_no_braces) {
  EXPECT_EQ(parse("train_batch_size: 8\nzero_optimization: {\n  stage: 2\n}\n"),
            Json::parse(R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}})"));
  EXPECT_EQ(parse("# nothing\n"), Json::object());
}

TEST(Hjson, a_word_without_quotes_goes_to_the_end_of_its_line) {
  EXPECT_EQ(parse("{type: AdamW\n text: a, b] } # c\n 'k 1': 'it\\'s'\n}"),
            Json::parse(R"({"type": "AdamW", "text": "a, b] } # c", "k 1": "it's"})"));
  EXPECT_EQ(parse("{a: true, b: false # no\n c: null/**/, d: 01\n e: truely\n f: -\n}"),
            Json::parse(R"({"a": true, "b": false, "c": null, "d": "01", "e": "truely",
                            "f": "-"})"));
}

TEST(Hjson, whole_numbers_are_integers_however_they_are_written) {
  const Json v = parse("[5e8, 2.0, 1e10, 0.5, -3E0]");
  EXPECT_TRUE(v[0].is_number_integer());
  EXPECT_TRUE(v[1].is_number_integer());
  EXPECT_TRUE(v[2].is_number_float()) << "from 1e10 on they stay as they are";
  EXPECT_EQ(v, Json::parse("[500000000, 2, 1e10, 0.5, -3]"));
}

TEST(Hjson, lines_in_triple_quotes_lose_the_indentation_of_their_quotes) {
  EXPECT_EQ(parse("{\n  a: '''\n     one\n       two\n     '''\n}"),
            Json::parse(R"({"a": "one\n  two"})"));
  EXPECT_EQ(parse("{\n  a: '''one'''\n}"), Json::parse(R"({"a": "one"})"));
}

TEST(Hjson, a_key_given_twice_is_refused_where_it_stands) {
  expect_says(message_of<DeckError>([] { parse("{m: [{}, {\n a: 1\n b: 2\n a: 3\n}]}"); }),
              {"x.json", "m.1.a", "twice", "line 4", "remove"});
}

TEST(Hjson, errors_name_line_and_column) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"{,}", "line 1, column 2"},
      {"[,]", "line 1, column 2"},
      {"{\"a\": 1,,}", "line 1, column 9"},
      {"[1,,2]", "line 1, column 4"},
      {"{\"a\":,}", "line 1, column 6"},
      {"{a: 1", "line 1, column 6"},
      {"{a b: 1}", "blanks needs quotes"},
      {"{\n a: \"x\n\"}", "line 2"},
      {"{a: \"x", "never closed"},
      {"{\n a: '''x", "never closed"},
      {"{a: /* open", "never closed"},
      {"{\"a\": \"\\x\"}", "escape"},
      {"{\"a\": \"\\u12g4\"}", "hexadecimal"},
      {"{\"a\": \"\\ud800\"}", "surrogate"},
      {"{a: 1}\nx", "line 2, column 1"},
      {"{a: 1e999}", "too large"},
      {"{a: \"\xff\"}", "UTF-8"},
      {"hello", "a key and a colon"},
  };
  for (const auto& c : cases)
    expect_says(message_of<JsonSyntaxError>([&] { parse(c.text); }), {c.says, "not JSON"});
}

TEST(Hjson, deep_nesting_is_refused_not_a_crash) {
  for (const char* open : {"[", "{a:"}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += open;
    expect_says(message_of<DeckError>([&] { parse(text); }), {"x.json", "64 levels"});
  }
}

}  // namespace
}  // namespace shardmark::test::hjson_test
