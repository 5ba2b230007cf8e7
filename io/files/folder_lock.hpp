// SPDX-License-Identifier: Apache-2.0
// One writer a folder. The system lets go of the lock when its process ends, however that comes, so
// that none is ever left behind.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// Holds the lock of a folder from construction to destruction.
class FolderLock {
 public:
  /// Makes `folder` where it is missing and locks it by its file `.lock`, which then says who has
  /// it. `who` names another holder in the message, `key` what to change, `remedy` ends the
  /// messages about files. Throws IoError: it cannot be made or written, or another process has it.
  FolderLock(const std::string& folder, std::string_view who, std::string_view key,
             std::string_view remedy);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace shardmark
