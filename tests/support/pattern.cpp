// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <regex>

#include <tests/support/pattern.hpp>

namespace shardmark::test {
namespace {

// Compiled once per pattern, since tests match many lines with one pattern.
const std::regex& compiled(const std::string& pattern) {
  static std::map<std::string, std::regex> expressions;
  const auto it = expressions.find(pattern);
  if (it != expressions.end()) return it->second;
  return expressions.emplace(pattern, std::regex(pattern)).first->second;
}

Match groups_of(const std::smatch& match) {
  Match groups;
  for (const auto& group : match) groups.push_back(group.str());
  return groups;
}

}  // namespace

Match match_whole(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_match(text, match, compiled(pattern)) ? groups_of(match) : Match{};
}

Match find_match(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, compiled(pattern)) ? groups_of(match) : Match{};
}

std::vector<Match> find_matches(const std::string& text, const std::string& pattern) {
  std::vector<Match> all;
  for (std::sregex_iterator at(text.begin(), text.end(), compiled(pattern)), end; at != end; ++at)
    all.push_back(groups_of(*at));
  return all;
}

bool matches(const std::string& text, const std::string& pattern) {
  return !match_whole(text, pattern).empty();
}

bool contains(const std::string& text, const std::string& pattern) {
  return !find_match(text, pattern).empty();
}

}  // namespace shardmark::test
