// SPDX-License-Identifier: Apache-2.0
// Runs or predictions of one deck on different numbers of ranks: speed-up and efficiency, as strong
// or as weak scaling, whichever the reports show. docs/scaling.md explains the figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <core/enum_array.hpp>
#include <miniapp/tools/compare/subject.hpp>

namespace shardmark {

/// Strong: every number of ranks shares the same global batch. Weak: every rank has the same batch.
/// Neither: the batch follows no such rule, so no speed-up is defined.
enum class ScalingKind : std::uint8_t { strong, weak, neither };
template<>
inline constexpr auto value_names<ScalingKind> = name_list("strong", "weak", "neither");

/// What the runs of one number of ranks give: medians over the runs.
struct ScalingPoint {
  int ranks = 0, nodes = 0;  // nodes 0: unknown
  std::size_t runs = 0;
  double parameters = 0;                             // of the model; 0: unknown
  std::int64_t layers = 0;                           // 0: unknown
  double tokens = 0;                                 // of one optimizer step
  double tokens_per_s = 0, lowest = 0, highest = 0;  // the median, and the range over the runs
  double merit = 0;  // tokens_per_s, or parameter_tokens_per_s if models differ
  std::optional<double> step_p50_s, exposed_share;
  /// Relative to the smallest number of ranks; the ideal is the ratio of ranks. Empty for
  /// `neither`.
  std::optional<double> speedup = {}, efficiency = {};
  double ideal = 1;

  double merit_per_rank() const { return merit / ranks; }
};

/// One series; points ascend in ranks, and the first one is the reference.
struct ScalingSeries {
  std::string name;  // of the deck, and of the machine of a prediction
  bool predicted = false;
  ScalingKind kind = ScalingKind::neither;
  bool models_differ = false;  // then the merit is in parameter-tokens per second
  std::vector<ScalingPoint> points;
  std::vector<std::string> notes;     // what a reader must know before using the figures
  std::vector<std::size_t> subjects;  // indices of those that belong to it, left out or not

  const char* merit_name() const;
};

/// The series among the subjects, whose order makes no difference. Subjects belong together if they
/// did the same kind of work: the same deck apart from batch, length of the run, files and budgets.
/// If no two numbers of ranks did, the size of the model may differ too. Runs that are not VALID
/// are left out and named in the notes.
std::vector<ScalingSeries> scaling_of(const std::vector<Subject>& subjects);

/// Whether a key of a deck says what kind of work a step is, so that runs that differ in it are no
/// series.
bool tells_work(const std::string& key);

/// "52.1 k", "12.34 G": four digits, with a prefix of SI from ten thousand on.
std::string short_amount(double value);

/// Speed-up and efficiency of a series as drawings, with a table and the notes; empty without
/// series. Axes are logarithmic if the ranks span more than a factor of 8.
std::string scaling_html(const std::vector<ScalingSeries>& series);

/// The section of the terminal; empty without series.
std::string scaling_text(const std::vector<ScalingSeries>& series);
nlohmann::ordered_json scaling_json(const std::vector<ScalingSeries>& series);

}  // namespace shardmark
