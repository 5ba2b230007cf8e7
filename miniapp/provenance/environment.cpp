// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/core.h>

#include <miniapp/provenance/environment.hpp>
#include <miniapp/provenance/variables.hpp>

namespace shardmark {
namespace {

bool is_recorded(std::string_view variable) {
  const VariableKind kind = kind_of_variable(variable.substr(0, variable.find('=')));
  return kind == VariableKind::setting || kind == VariableKind::place;
}

// "rank 2 has 4, rank 0 has none".
std::string describe_difference(const VariableOfRanks& variable, int ranks) {
  std::vector<std::string> value_of(static_cast<std::size_t>(ranks), "has none");
  for (const auto& [value, of] : variable.values)
    for (const int r : of) value_of[static_cast<std::size_t>(r)] = "has \"" + value + "\"";
  for (std::size_t r = 1; r < value_of.size(); ++r)
    if (value_of[r] != value_of[0])
      return fmt::format("environment: {}: rank {} {}, rank 0 {}", variable.name, r, value_of[r],
                         value_of[0]);
  return {};
}

}  // namespace

bool may_differ_by_rank(std::string_view name) {
  return kind_of_variable(name) == VariableKind::place;
}

std::string environment_difference(const std::vector<RankInfo>& ranks) {
  for (const VariableOfRanks& v : by_variable(ranks))
    if (!v.same_everywhere && !may_differ_by_rank(v.name))
      return describe_difference(v, static_cast<int>(ranks.size()));
  return {};
}

std::string environment_warning(const std::vector<RankInfo>& ranks) {
  std::string names_of;
  for (const VariableOfRanks& v : by_variable(ranks))
    if (!v.same_everywhere && may_differ_by_rank(v.name))
      names_of += (names_of.empty() ? "" : ", ") + v.name;
  return names_of.empty() ? "" : "The ranks have different values of " + names_of + ".";
}

std::vector<std::string> relevant_environment(const char* const* environment) {
  std::vector<std::string> found;
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (is_recorded(*environment)) found.emplace_back(*environment);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<VariableOfRanks> by_variable(const std::vector<RankInfo>& ranks) {
  std::map<std::string, std::map<std::string, std::vector<int>>> all;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const std::string& variable : ranks[r].environment) {
      const auto equals = variable.find('=');
      all[variable.substr(0, equals)][variable.substr(equals + 1)].push_back(static_cast<int>(r));
    }
  std::vector<VariableOfRanks> list;
  for (auto& [name, values] : all) {
    VariableOfRanks& v = list.emplace_back();
    v.name = name;
    for (auto& [value, of] : values) v.values.emplace_back(value, std::move(of));
    v.same_everywhere = v.values.size() == 1 && v.values[0].second.size() == ranks.size();
  }
  return list;
}

}  // namespace shardmark
