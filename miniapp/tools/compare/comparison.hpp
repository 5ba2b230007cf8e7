// SPDX-License-Identifier: Apache-2.0
// Runs and predictions side by side: figures, what differs in deck and environment, and whether
// they may be compared at all.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <miniapp/tools/compare/scaling.hpp>
#include <miniapp/tools/compare/subject.hpp>

namespace shardmark {

/// One value per subject; empty where a subject has none.
struct ComparedRow {
  std::string name;
  std::vector<std::string> cells;
  std::vector<std::string> relations = {};  // to the first subject; empty where there is none
  std::string figure = {};                  // its name in Subject::figures, if it is one
};

struct Comparison {
  std::vector<Subject> subjects;
  std::vector<ComparedRow> figures;            // each cell with its relation to the first subject
  std::vector<ComparedRow> deck, environment;  // only what differs
  std::vector<ScalingSeries> scaling;          // empty: no two numbers of ranks did the same work
  /// Why they cannot simply be compared, side by side or within their scaling series; empty: they
  /// can.
  std::vector<std::string> objections;
  bool same_ranks = true;

  /// The last word about the comparison; what follows it are the objections.
  std::string verdict() const;
};

/// Compares at least two subjects; the first one is the reference.
Comparison compare(std::vector<Subject> subjects);

std::string comparison_text(const Comparison& comparison);
/// A page that needs no other file and no script.
std::string comparison_html(const Comparison& comparison);
nlohmann::ordered_json comparison_json(const Comparison& comparison);

}  // namespace shardmark
