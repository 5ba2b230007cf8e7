// SPDX-License-Identifier: Apache-2.0
// The folder that a run writes to. Files appear whole or not at all: written under another name,
// flushed to the disk, then renamed. Nothing in the folder but our own files is ever touched.
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

/// Whether it is one of the three above.
bool is_run_file(std::string_view name);

/// The output folder of one run.
class OutputFolder {
 public:
  /// Makes the folder and those above it if they are missing, and proves with a trial file that it
  /// can be written. `more` names a further file that will be written, if any. One rank calls this,
  /// before training. Throws IoError with path, reason and remedy.
  explicit OutputFolder(std::string path, std::string more = {});

  const std::string& path() const { return path_; }

  /// Writes one of our files (`report_file`, `page_file`, `losses_file`), replacing the old one.
  /// Throws IoError; the old file is then still there.
  void replace(const std::string& name, std::string_view content) const;
  /// Writes the further file in pieces: `next` gives one after another, the last one is empty.
  /// Throws IoError; the old file is then still there.
  void replace_in_pieces(const std::string& name, const std::function<std::string()>& next) const;

 private:
  bool ours(std::string_view name) const;
  std::string path_, more_;
};

/// One row of losses.csv: what a step that this run did came to.
struct LossRow {
  std::int64_t step = 0;
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;
  bool skipped = false;
  double seconds = 0;
};

/// `step,loss,grad_norm,lr,loss_scale,skipped,seconds`, with the fewest digits that read back as
/// the same double; `skipped` is 0 or 1.
std::string losses_csv(std::span<const LossRow> rows);

}  // namespace shardmark
