// SPDX-License-Identifier: Apache-2.0
// The environment variables that reports and checks know, in one table.
#pragma once

#include <span>
#include <string_view>

namespace shardmark {

/// What a variable is to a run.
enum class VariableKind {
  other,     // does not concern the run: neither compared nor recorded
  identity,  // a launcher gives it to a process or a job, or it is a key, an address or the folder
             // of a session: neither compared nor recorded
  place,     // says where a rank runs or which device it uses: recorded, and ranks may differ
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
