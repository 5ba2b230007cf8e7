// SPDX-License-Identifier: Apache-2.0
// The folder `checkpoint.dir`: published checkpoints by name, a pointer `latest`, and a lock. A
// checkpoint is written under a temporary name and published by one rename, so that at every moment
// each published name is a complete checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <io/files/durable_file.hpp>

namespace shardmark {

/// Returns `step-00000010` for the state after ten steps.
std::string checkpoint_name(std::int64_t step);

/// Returns the names of the checkpoints in `dir`, oldest first by the time when they were written.
/// Throws IoError.
std::vector<std::string> published_checkpoints(const std::string& dir);

/// Returns the step in a checkpoint's name, or nothing if the name is of another kind.
std::optional<std::int64_t> step_of_name(const std::string& name);

/// Returns the checkpoint that `latest` names, or the newest one if `latest` is missing because of
/// a crash. Throws IoError if `latest` is damaged or names a checkpoint that does not exist.
std::optional<std::string> latest_checkpoint(const std::string& dir);

/// Returns the checkpoints that a run may resume from if some are damaged, best first: the one that
/// `latest` names and those that were written before it. If `latest` names none that exists, these
/// are all checkpoints, the newest first. Throws IoError.
std::vector<std::string> checkpoints_to_try(const std::string& dir);

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
  /// `latest` to it. A checkpoint of that name, or what is left of one, is replaced.
  void publish(const std::string& name, const std::string& manifest);
  /// Removes the checkpoint that `name` replaced, and others until `keep` remain (0: all remain):
  /// first those in `damaged`, then the oldest ones. Call it after `publish`.
  void clean_up(const std::string& name, std::int64_t keep,
                const std::vector<std::string>& damaged = {});
  /// Removes the folder that `begin` made. Reports no errors, because the folder is worthless.
  void abandon(const std::string& name);

 private:
  std::string temp_path(const std::string& name) const;

  std::string dir_;
  FolderLock lock_;
};

}  // namespace shardmark
