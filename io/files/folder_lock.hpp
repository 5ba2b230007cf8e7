// SPDX-License-Identifier: Apache-2.0
// A lock that gives a folder one writer. The system releases the lock when the process ends for
// whatever reason, so no stale lock remains.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// Holds the lock of a folder from construction to destruction.
class FolderLock {
 public:
  /// Creates `folder` if it is missing and locks it through its file `.lock`, which then names the
  /// holder. In messages, `who` describes another holder, `key` names what to change, and `remedy`
  /// ends messages about files. Throws IoError if the folder cannot be created or written, or if
  /// another process holds the lock.
  FolderLock(const std::string& folder, std::string_view who, std::string_view key,
             std::string_view remedy);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

/// Returns what the file `.lock` of `folder` says about its holder; empty if there is no such file.
/// Throws IoError if it cannot be read; `remedy` ends the message.
std::string lock_holder(const std::string& folder, std::string_view remedy);

}  // namespace shardmark
