// SPDX-License-Identifier: Apache-2.0
// The folder to which a run writes. Files appear whole or not at all: they are written under a
// temporary name, flushed to the disk, then renamed. Other files in the folder are never changed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace shardmark {

inline constexpr const char* report_file = "report.json";
inline constexpr const char* page_file = "report.html";
inline constexpr const char* losses_file = "losses.csv";

/// Returns whether `name` is one of the three names above.
bool is_run_file(std::string_view name);

/// Whether a trace of that name is one file for each rank: those of MLCommons Chakra end in ".et".
bool is_file_of_each_rank(std::string_view name);
/// "step.3.et": the file of a rank, for the name "step.et".
std::string rank_file(const std::string& name, int rank);

/// The output folder of one run.
class OutputFolder {
 public:
  /// Creates the folder and its parents if they are missing, and writes a trial file to prove that
  /// the folder can be written. `more` names a further file that will be written, if there is one.
  /// One rank calls this before training. Throws IoError with path, reason and remedy.
  explicit OutputFolder(std::string path, std::string more = {});

  const std::string& path() const { return path_; }

  /// Writes one of the run's files (`report_file`, `page_file`, `losses_file`) and replaces the old
  /// one; or a file of one rank, if `more` is such a name (rank_file()). Throws IoError; the old
  /// file then still exists.
  void replace(const std::string& name, std::string_view content) const;
  /// Writes the further file in pieces: each call of `next` returns a piece, and an empty one ends
  /// the file. Throws IoError; the old file then still exists.
  void replace_in_pieces(const std::string& name, const std::function<std::string()>& next) const;

 private:
  bool ours(std::string_view name) const;
  std::string path_, more_;
};

/// One row of losses.csv: the result of one step of this run.
struct LossRow {
  std::int64_t step = 0;
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;
  bool skipped = false;
  double seconds = 0;
};

/// Returns the rows as `step,loss,grad_norm,lr,loss_scale,skipped,seconds`, with the fewest digits
/// that read back as the same double. `skipped` is 0 or 1.
std::string losses_csv(std::span<const LossRow> rows);

}  // namespace shardmark
