// SPDX-License-Identifier: Apache-2.0
// The folder `checkpoint.dir`: published checkpoints by name, a pointer `latest`, and a lock. A
// checkpoint is written under a temporary name and published by one rename, so that at every moment
// each published name is a complete checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <io/files/folder_lock.hpp>

namespace shardmark {

/// Returns `step-00000010` for the state after ten steps.
std::string checkpoint_name(std::int64_t step);

/// Returns the names of the checkpoints in `dir`, oldest first by the time when they were written.
/// Throws IoError.
std::vector<std::string> published_checkpoints(const std::string& dir);

/// Returns the checkpoint that `latest` names, or the newest one if `latest` is missing because of
/// a crash.
std::optional<std::string> latest_checkpoint(const std::string& dir);

/// The one writer of a folder. One rank has it. The lock is released when its processes end, for
/// whatever reason.
class CheckpointWriterFolder {
 public:
  /// Creates `dir` if it is missing, locks it, and removes the remains of writers that died. Throws
  /// IoError if the folder cannot be created or written, or if another run writes there.
  explicit CheckpointWriterFolder(std::string dir);

  /// Creates a folder for files that are not published yet. Returns its path.
  std::string begin(const std::string& name);
  /// Writes the manifest into the folder that `begin` made, publishes the folder, and points
  /// `latest` to it.
  void publish(const std::string& name, const std::string& manifest);
  /// Removes the checkpoint that `name` replaced, and the oldest ones until `keep` remain (0: all
  /// remain). Call it after `publish`.
  void clean_up(const std::string& name, std::int64_t keep);
  /// Removes the folder that `begin` made. Reports no errors, because the folder is worthless.
  void abandon(const std::string& name);

 private:
  std::string temp_path(const std::string& name) const;

  std::string dir_;
  FolderLock lock_;
};

}  // namespace shardmark
