// SPDX-License-Identifier: Apache-2.0
// The folder `checkpoint.dir`: published checkpoints by name, a pointer `latest`, a lock. A
// checkpoint is written under a temporary name and published by one rename, so that at every moment
// each name that a reader sees is whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <io/files/folder_lock.hpp>

namespace shardmark {

/// `step-00000010`: what was reached after ten steps.
std::string checkpoint_name(std::int64_t step);

/// Names of the checkpoints in `dir`, oldest first (by when they were written). Throws IoError.
std::vector<std::string> published_checkpoints(const std::string& dir);

/// The one that `latest` names, or, where that is missing (a crash came before), the newest.
std::optional<std::string> latest_checkpoint(const std::string& dir);

/// The one writer of a folder. One rank has it; its processes' end, however it comes, unlocks.
class CheckpointWriterFolder {
 public:
  /// Makes `dir` where it is missing, locks it, and removes what writers that died have left.
  /// Throws IoError: it cannot be made or written, or another run writes there.
  explicit CheckpointWriterFolder(std::string dir);

  /// A new folder for files that are not published yet; its path.
  std::string begin(const std::string& name);
  /// Writes the manifest into what `begin` made, publishes all of it, points `latest` to it.
  void publish(const std::string& name, const std::string& manifest);
  /// After that: removes what `name` took the place of, and the oldest until `keep` are left (0:
  /// all stay).
  void clean_up(const std::string& name, std::int64_t keep);
  /// Removes what `begin` made, without a word: it is worthless.
  void abandon(const std::string& name);

 private:
  std::string temp_path(const std::string& name) const;

  std::string dir_;
  FolderLock lock_;
};

}  // namespace shardmark
