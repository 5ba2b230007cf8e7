// SPDX-License-Identifier: Apache-2.0
// Rule: every key of DeepSpeed's own config is in the tables, and docs/deepspeed.md and
// docs/decks.md say of each key what its record says.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <io/deck/deck_keys.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <io/json/json_source.hpp>

namespace shardmark::test::key_table_test {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(SHARDMARK_TESTS) + "/../" + file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The two sections that have a second spelling are listed under both.
std::string first_spelling(std::string path) {
  for (const auto& [other, name] : {std::pair<std::string, std::string>{"bfloat16.", "bf16."},
                                    std::pair<std::string, std::string>{
                                        "tensor_parallel.tp.", "tensor_parallel.tensor_parallel."}})
    if (path.starts_with(other)) path = name + path.substr(other.size());
  return path;
}

TEST(KeyTable, has_every_key_of_deepspeeds_own_config) {
  const Json trial = read_json_file(
      std::string(SHARDMARK_TESTS) + "/data/deepspeed_config_verdicts.json", JsonRules::deck);
  int found = 0;
  for (const Json& row : trial["keys"]) {
    const auto path = row["key"].get<std::string>();
    if (path.ends_with("no_such_key")) continue;
    EXPECT_NE(ds_key(first_spelling(path)), nullptr) << path;
    ++found;
  }
  EXPECT_GT(found, 300);
}

TEST(KeyTable, says_what_each_key_with_an_effect_does) {
  for (const Section& section : ds_sections())
    for (const Key& key : section.keys)
      if (key.effect == KeyEffect::tunes || key.effect == KeyEffect::values ||
          (key.effect == KeyEffect::used && key.type != KeyType::object &&
           key.type != KeyType::object_or_null && key.type != KeyType::any)) {
        EXPECT_FALSE(key.sentence.empty()) << section.path << " " << key.name;
      }
}

// The rows of a page's tables, cell by cell.
std::vector<std::vector<std::string>> rows_of(const std::string& page) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 2, end = 0; (end = line.find(" |", at)) != std::string::npos;
         at = end + 3)
      cells.push_back(line.substr(at, end - at));
    rows.push_back(std::move(cells));
  }
  return rows;
}

// 500000000 is 5e8.
std::string short_number(std::int64_t value) {
  constexpr std::int64_t shortest = 100'000;
  int zeros = 0;
  std::int64_t digits = value;
  for (; digits >= 10 && digits % 10 == 0; digits /= 10) ++zeros;
  return value >= shortest && digits < 10 ? fmt::format("{}e{}", digits, zeros)
                                          : std::to_string(value);
}

// A default as a document writes it: 5e8, true, or nothing.
std::string default_text(const Key& key) {
  if (key.needed) return "required";
  if (!key.absent.empty()) return std::string(key.absent);
  const Json value = key.default_value();
  if (value.is_null()) return "none";
  if (value == std::numeric_limits<std::int64_t>::max()) return "no limit";
  if (value.is_number_integer()) return short_number(value.get<std::int64_t>());
  if (value.is_number()) return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The keys that a cell consists of; empty if it says more than keys.
std::vector<const Key*> keys_in(const std::string& cell) {
  std::vector<const Key*> keys;
  if (!std::regex_match(cell, std::regex("(`[a-z0-9_.]+` ?)+"))) return keys;
  const std::regex quoted("`([^`]+)`");
  for (auto it = std::sregex_iterator(cell.begin(), cell.end(), quoted);
       it != std::sregex_iterator(); ++it)
    for (const char* section : {"zero_optimization.", ""})
      if (const Key* key = ds_key(section + (*it)[1].str())) {
        keys.push_back(key);
        break;
      }
  return keys;
}

TEST(KeyTable, agrees_with_the_page_about_deepspeed) {
  const std::string page = text_of("docs/deepspeed.md");
  int rows = 0;
  for (const std::vector<std::string>& cells : rows_of(page)) {
    const std::vector<const Key*> keys = keys_in(cells.front());
    if (keys.empty() || cells.size() != 4) continue;
    SCOPED_TRACE(cells.front());
    std::string defaults;
    for (const Key* key : keys) defaults += (defaults.empty() ? "" : ", ") + default_text(*key);
    if (!keys.front()->default_value().is_null()) {
      EXPECT_EQ(cells[1], defaults);
    }
    EXPECT_TRUE(cells[2].starts_with(keys.front()->sentence)) << keys.front()->sentence;
    ++rows;
  }
  EXPECT_GT(rows, 20);
  for (const Section& section : ds_sections())
    for (const Key& key : section.keys)
      if (key.effect == KeyEffect::tunes || key.effect == KeyEffect::values) {
        EXPECT_TRUE(page.find(key.alias.empty() ? key.name : key.alias) != std::string::npos)
            << key.name;
      }
}

// The rows of a page by the keys in their first cells: `run.steps`, and in the same cell after it
// `warmup` for `run.warmup`. The keys of a page about one section stand without its name.
using Rows = std::multimap<std::string, std::vector<std::string>>;
Rows rows_by_key(const std::string& page, const std::string& section = {}) {
  Rows rows;
  const std::regex quoted("`([^`]+)`");
  for (const std::vector<std::string>& cells : rows_of(page)) {
    if (cells.size() != 3) continue;
    std::string above = section;
    for (auto it = std::sregex_iterator(cells[0].begin(), cells[0].end(), quoted);
         it != std::sregex_iterator(); ++it) {
      std::string path = (*it)[1].str();
      if (const std::size_t dot = path.rfind('.'); section.empty() && dot != std::string::npos)
        above = path.substr(0, dot);
      else if (!above.empty())
        path = above + "." + path;
      rows.emplace(path, cells);
    }
  }
  return rows;
}

// A row about several keys says in one text what they do, so only a row about one key is compared.
void expect_row(const Section& section, const Key& key, const std::vector<std::string>& cells) {
  SCOPED_TRACE(fmt::format("{}.{}", section.path, key.name));
  if (cells[0].find(' ') != std::string::npos) return;
  const std::string text =
      std::regex_replace(cells[2], std::regex("^(`[a-z]+`,? ?)+(only)?: "), "");
  EXPECT_TRUE(text.starts_with(key.sentence) || cells[2].starts_with(key.sentence))
      << "page: " << cells[2] << "\nrecord: " << key.sentence;
  // A default that the key itself does not accept stands for its absence.
  const Json value = key.default_value();
  const bool unset = key.absent.empty() && !key.needed &&
                     (value.is_null() || (value.is_number() && value < key.range.min));
  const std::regex ticks("`");
  const std::string bare = std::regex_replace(cells[1], ticks, "");
  EXPECT_TRUE(unset || bare.starts_with(std::regex_replace(default_text(key), ticks, "")))
      << bare << ", " << default_text(key);
}

TEST(KeyTable, agrees_with_the_pages_about_decks) {
  const Rows decks = rows_by_key(text_of("docs/decks.md"));
  const Rows decoders = rows_by_key(text_of("docs/decks.md"), "model");
  const Rows torch = rows_by_key(text_of("docs/fsdp.md"), "torch");
  for (const Section& section : deck_sections()) {
    if (section.path.find('.') != std::string_view::npos) continue;  // rows of its parent say it
    for (const Key& key : section.keys) {
      const std::string path = fmt::format("{}.{}", section.path, key.name);
      const Rows& rows = section.path == "torch"                            ? torch
                         : section.owner == "decoder" && !decks.count(path) ? decoders
                                                                            : decks;
      EXPECT_GT(rows.count(path), 0u) << path;
      for (auto [row, end] = rows.equal_range(path); row != end; ++row)
        expect_row(section, key, row->second);
    }
  }
}

// Whether a word only looks like the path of a key: names of PyTorch and transformers, files of a
// cgroup, functions of DeepSpeed and files of a run do.
bool is_another_name(const std::string& path) {
  static const std::regex names(
      "^torch[.](nn|optim|bfloat16|float|int8|distributed)|^memory[.](max|current|limit|usage)|"
      "^model[.](norm|final_)|^deepspeed[.]checkpointing|[.]$|"
      "[.](cpp|hpp|json|html|csv|txt|md)$");
  return std::regex_search(path, names);
}

TEST(KeyTable, has_every_key_that_a_source_names) {
  const std::regex named(
      "\"((?:run|data|comm|memory|machine|checkpoint|perturb|congestion|expect|torch|deepspeed)"
      "[.][a-z_0-9.]+|model[.][a-z_]+)[\" =:]");
  int found = 0;
  for (const char* room : {"core", "comm", "miniapp"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::string(SHARDMARK_TESTS) + "/../" + room)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) {
        std::smatch match;
        if (line.find("//") != std::string::npos || !std::regex_search(line, match, named))
          continue;
        const std::string path = match[1];
        if (is_another_name(path)) continue;
        EXPECT_NE(key_at(path), nullptr) << entry.path() << ": " << line;
        ++found;
      }
    }
  EXPECT_GT(found, 50);
}

TEST(KeyTable, has_every_key_of_the_pages_about_decks) {
  const std::string page = text_of("docs/decks.md");
  for (const auto& [path, cells] : rows_by_key(page.substr(0, page.find("## Configs of")))) {
    const bool section = path.find('.') == std::string::npos;
    EXPECT_TRUE(section || key_at(path) != nullptr) << path;
  }
}

}  // namespace
}  // namespace shardmark::test::key_table_test
