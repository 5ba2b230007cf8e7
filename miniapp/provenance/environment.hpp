// SPDX-License-Identifier: Apache-2.0
// The environment variables that affect the speed of a run, and where they differ between ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// "NAME=value" of this process, by name: the settings and places of the table.
std::vector<std::string> relevant_environment(const char* const* environment);

/// A variable, with the ranks that have each of its values; ranks that lack it are not listed.
struct VariableOfRanks {
  std::string name;
  std::vector<std::pair<std::string, std::vector<int>>> values;  // value, ranks ascending
  bool same_everywhere = false;
};
/// All variables of all ranks, by name.
std::vector<VariableOfRanks> by_variable(const std::vector<RankInfo>& ranks);

/// The first variable that ranks have to have in common and do not, as a text; empty: there is
/// none. Ranks with other settings of a library make a figure that nobody can repeat.
std::string environment_difference(const std::vector<RankInfo>& ranks);
/// One sentence that names the variables which may differ by rank and do; empty: there is none.
std::string environment_warning(const std::vector<RankInfo>& ranks);

/// What a variable is to a run.
enum class VariableKind {
  other,     // does not concern the run: neither compared nor recorded
  identity,  // a launcher gives it to a process or a job, or it is a key, an address or the folder
             // of a session: neither compared nor recorded
  place,     // says where a rank runs or which device it uses (cores, network cards, host names,
             // what a job scheduler says): recorded, and launchers give each rank its own value
  setting    // a person sets it, and it changes how a library computes or communicates: recorded,
             // and ranks must agree
};

/// A row of the table: the names that begin with, are, end with or contain `text`.
struct VariableRow {
  enum class Match { begins, is, ends, contains };
  VariableKind kind;
  Match match;
  std::string_view text;

  bool fits(std::string_view name) const;
};

/// All rows. Rows of identities come before the settings that they are exceptions from.
std::span<const VariableRow> variable_rows();

/// The kind of the variable with this name. A name is a setting if a row of settings fits and no
/// row of identities; it is a place if a row of places fits besides.
VariableKind kind_of_variable(std::string_view name);

}  // namespace shardmark
