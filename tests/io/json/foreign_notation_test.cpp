// SPDX-License-Identifier: Apache-2.0
// Python and YAML where JSON is expected: the message says what was written, where, and what to
// write.
#include <fmt/core.h>

#include <io/json/json_source.hpp>
#include <io/json/yaml.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::foreign_notation_test {
namespace {

std::string refusal(const std::string& text, JsonRules rules) {
  const ScratchFolder folder;
  const std::string path = folder.write("x.json", text);
  return message_of<DeckError>([&] { (void)read_json_file(path, rules); });
}

TEST(ForeignNotation, python_is_named_with_its_place_and_remedy) {
  const struct {
    const char *text, *where, *what;
  } cases[] = {
      {"{\n \"a\": True}", "line 2, column 7", "write true in place of True"},
      {"{\"a\": [False]}", "line 1, column 8", "write false in place of False"},
      {"{\"a\": None}", "line 1, column 7", "write null in place of None"},
      {"{'a': 1}", "line 1, column 2", "double quotes"},
      {"{\"a\": (1, 2)}", "line 1, column 7", "in brackets"},
      {"{\"a\": 1,\n}", "line 1, column 8", "remove it"},
      {"{\"a\": [1, 2, ]}", "line 1, column 12", "remove it"},
      {"{\"a\": 5_000_000}", "line 1, column 8", "without _"},
      {"{\"a\": 1, \"b\": 2 * 4}", "line 1, column 17", "calculated"},
      {"{\"a\": 5e8 / 2}", "line 1, column 11", "calculated"},
      {"{\"a\": 1 /* 2 * 3 */, \"b\": None}", "line 1, column 27", "write null"},
      {"{\"a\": NaN}", "line 1, column 7", "write a number in place of NaN"},
      {"{\"a\": -inf}", "line 1, column 8", "write a number in place of inf"},
      {"config = {\"a\": 1}", "line 1, column 8", "between them"},
      {"{ # True\n \"True\": \"None, \\\" (\", \"a\": True }", "line 2, column 29", "write true"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    expect_says(refusal(c.text, JsonRules::deck), {"x.json", c.where, c.what});
  }
}

TEST(ForeignNotation, yaml_is_named) {
  for (const char* text :
       {"a: 1\nb:\n  c: 2\n", "---\na: 1\n", "# first\nmodel: x\n", "# first\n- a\n- b\n"})
    expect_says(refusal(text, JsonRules::deck), {"this is YAML", "line ", "column 1"});
  for (const char* text : {"a: 1\nb:\n  c: 2\n", "b:\n  - 1\n  - 2\n"})
    expect_says(refusal(text, JsonRules::deepspeed), {"this is YAML", ".yaml"});
}

TEST(ForeignNotation, a_config_in_python_is_named_where_hjson_cannot_read_it) {
  expect_says(refusal("{\"fp16\": {\"enabled\": True}}", JsonRules::deepspeed),
              {"line 1, column 22", "write true in place of True"});
}

TEST(ForeignNotation, words_of_yaml_are_named_between_braces) {
  for (const auto& [word, json] : {std::pair("yes", "true"), {"off", "false"}})
    expect_says(
        refusal(fmt::format("{{\"bf16\": {{\"enabled\": {}}}}}", word), JsonRules::deepspeed),
        {"line 1, column 22", fmt::format("this is YAML: write {} in place of {}", json, word)});
}

TEST(ForeignNotation, what_hjson_reads_stays_readable) {
  const ScratchFolder folder;
  for (const char* text : {"a: 1\nb: x\n", "{'a': 1,}", "{a: True\n}", "b:\n{\n c: 2\n}\n"})
    EXPECT_NO_THROW((void)read_json_file(folder.write("x.json", text), JsonRules::deepspeed))
        << text;
}

TEST(ForeignNotation, plain_mistakes_have_no_sign_of_another_notation) {
  for (const char* text : {"{\"a\" 1}", "{\"a\": Trueish}", "{\"a\": layer_1 2}", "{yes 1}",
                           "{\"a\": 1", "{\"a\": 1 \"b\": 2}"})
    EXPECT_FALSE(foreign_notation(text)) << text;
}

}  // namespace
}  // namespace shardmark::test::foreign_notation_test
