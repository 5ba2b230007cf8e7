// SPDX-License-Identifier: Apache-2.0
// One of the things that are compared: the report of a run, or a point of a prediction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardmark {

struct Subject {
  std::string label;  // the file, shortened as far as files differ
  bool predicted = false;
  std::string result, run_class;  // "VALID", "official"; empty for predictions
  int world = 0;
  int nodes = 0;                                   // 0: unknown
  double parameters = 0;                           // 0: unknown
  std::int64_t layers = 0;                         // 0: unknown, or the model has none
  double tokens = 0;                               // of one optimizer step on all ranks; 0: unknown
  std::vector<std::string> warnings;               // of the run: what makes its times mean little
  std::map<std::string, double> figures;           // by name, see comparison.cpp
  std::map<std::string, std::string> deck;         // flattened: key.path -> JSON
  std::map<std::string, std::string> environment;  // versions, hosts, processors, variables
  std::string deck_hash, plan_hash, state_hash;

  /// Whether the deck is known; predictions of older programs have its name only.
  bool tells_deck() const { return deck.size() > 1; }
};

/// Names of figures that are looked up.
namespace figure_name {
inline constexpr const char* tokens_per_s = "tokens_per_s";
inline constexpr const char* parameters = "parameters";
inline constexpr const char* parameter_tokens_per_s = "parameter_tokens_per_s";
inline constexpr const char* step_p50 = "step p50, s";
inline constexpr const char* exposed = "exposed communication, s";
inline constexpr const char* exposed_share = "exposed communication, part of the step";
}  // namespace figure_name

/// Reads report.json of a run (one subject), or what `predict --format json` printed (a subject for
/// each of its points). Throws DeckError for a file that is neither, in one line.
std::vector<Subject> read_subjects(const std::string& path);

}  // namespace shardmark
