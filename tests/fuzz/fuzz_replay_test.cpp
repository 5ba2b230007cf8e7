// SPDX-License-Identifier: Apache-2.0
// The readers of the fuzzers without a fuzzer: each accepts what it is given or refuses it in one
// short line.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tests/fuzz/readers.hpp>

namespace shardmark::test::fuzz_replay_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> corpus_of(const std::string& reader) {
  return files_of(std::string(SHARDMARK_TESTS) + "/fuzz/corpus/" + reader);
}

TEST(FuzzReplay, the_corpus_crashes_no_reader) {
  for (const auto& [name, read] : readers()) {
    const std::vector<fs::path> files = corpus_of(name);
    for (const fs::path& path : files) {
      SCOPED_TRACE(path.string());
      EXPECT_NO_THROW(read(bytes_of(path)));
    }
    EXPECT_GT(files.size(), 3U) << name;
  }
}

// Calls visit with `json` each time that one of its values is another one or one of its objects has
// one key more, and restores it.
template<class Visit>
void for_each_change(Json& root, Json& json, const Visit& visit) {
  static const std::string hostile = "a\nb" + std::string(5000, 'c');
  if (json.is_object()) {
    json[hostile] = 1;
    visit(root);
    json.erase(hostile);
  }
  if (json.is_structured())
    for (Json& part : json) for_each_change(root, part, visit);
  for (const Json& other : {Json(hostile), Json::array({hostile}), Json{{hostile, hostile}}}) {
    const Json before = std::exchange(json, other);
    visit(root);
    json = before;
  }
}

// The corpus of a reader, and shipped files of its kind.
std::vector<fs::path> good_and_bad_files_of(const std::string& reader) {
  std::vector<fs::path> files = corpus_of(reader);
  const std::string inputs = std::string(SHARDMARK_TESTS) + "/../inputs";
  for (const auto& [kind, folder] :
       {std::pair{"deck", inputs}, std::pair{"machine", inputs + "/machines"}})
    if (reader == kind) std::ranges::copy(files_of(folder), std::back_inserter(files));
  return files;
}

TEST(FuzzReplay, no_key_or_value_makes_an_error_long) {
  int changes = 0;
  for (const auto& [name, read] : readers())
    for (const fs::path& path : good_and_bad_files_of(name)) {
      SCOPED_TRACE(path.string());
      Json json = Json::parse(bytes_of(path), nullptr, false);
      if (!json.is_object()) continue;
      for_each_change(json, json, [&, read = read](const Json& changed) {
        EXPECT_NO_THROW(read(changed.dump()));
        ++changes;
      });
    }
  EXPECT_GT(changes, 1000);
}

}  // namespace
}  // namespace shardmark::test::fuzz_replay_test
