// SPDX-License-Identifier: Apache-2.0
// One of the things that are compared: the report of a run, or a point of a prediction.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardmark {

struct Subject {
  std::string label;  // the file, shortened as far as files differ
  bool predicted = false;
  std::string result, run_class;  // "VALID", "official"; empty for predictions
  int world = 0;
  std::map<std::string, double> figures;           // by name, see comparison.cpp
  std::map<std::string, std::string> deck;         // flattened: key.path -> JSON
  std::map<std::string, std::string> environment;  // versions, hosts, processors, variables
  std::string deck_hash, plan_hash, state_hash;
};

/// Reads report.json of a run (one subject), or what `predict --format json` printed (a subject for
/// each of its points). Throws DeckError for a file that is neither, in one line.
std::vector<Subject> read_subjects(const std::string& path);

}  // namespace shardmark
