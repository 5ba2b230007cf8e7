// SPDX-License-Identifier: Apache-2.0
// Files and folders that are on the disk when a call returns. A file appears whole or not at all:
// it is written under a temporary name, flushed, then renamed. `remedy` is the end of every
// message.
// A lock that gives a folder one writer. The system releases the lock when the process ends for
// whatever reason, so no stale lock remains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <core/owned_fd.hpp>

namespace shardmark {

/// The remedies for a file that cannot be written into a checkpoint folder, or into the folder of
/// `--out`.
inline constexpr std::string_view checkpoint_remedy =
    "free the space, or give another checkpoint.dir";
inline constexpr std::string_view output_remedy =
    "free the space, change the permissions, or give another --out";

/// Throws IoError "path: what: reason: remedy".
[[noreturn]] void fail_io(const std::string& path, std::string_view what, const std::string& reason,
                          std::string_view remedy);

/// A file that is being written. It is closed and removed unless `rename_to` was reached.
class TempFile {
 public:
  /// Creates the file. Throws IoError.
  TempFile(std::string path, std::string_view remedy);
  ~TempFile();

  /// Appends a part of the content. Throws IoError.
  void append(std::string_view content);
  /// Appends the last part of the content, or all of it, and flushes the file to the disk. Call it
  /// once. Throws IoError.
  void write(std::string_view content);
  /// Gives the file its final name. Throws IoError.
  void rename_to(const std::string& target);

 private:
  std::string path_, remedy_;
  OwnedFd fd_;
  bool finished_ = false;
};

/// Returns `folder/.name.<pid>.tmp`, the name of a file while it is written.
std::string temp_name(const std::string& folder, std::string_view name);

/// Writes `folder/name` anew and flushes it to the disk. Throws IoError; the old file then still
/// exists.
void replace_file(const std::string& folder, const std::string& name, std::string_view content,
                  std::string_view remedy);

/// Renames a file that is flushed to the disk, and flushes the new name. Throws IoError.
void publish_file(const std::string& written, const std::string& path, std::string_view remedy);

/// Bytes of a file from byte `at` on.
struct FilePiece {
  std::int64_t at = 0;
  std::span<const std::byte> bytes;
};

/// Creates a file of `bytes` bytes, writes `pieces` into it, and reserves its space on the disk, so
/// that a full disk is noticed now; a file system that cannot reserve space notices it later. The
/// other bytes are undefined, and nothing is flushed. `made`: the file exists and is empty. Throws
/// IoError, also if the file exists otherwise.
void create_file(const std::string& path, std::int64_t bytes, std::span<const FilePiece> pieces,
                 std::string_view remedy, bool made = false);

/// Writes a piece to an open file. Throws IoError, which names `what`.
void write_piece(int fd, const FilePiece& piece, const std::string& what, std::string_view remedy);

/// Makes the names in a folder durable after files were created or renamed. Some network file
/// systems cannot do this and report EINVAL, which is ignored. Throws IoError.
void flush_folder(const std::string& path, std::string_view remedy);

/// Holds the lock of a folder from construction to destruction.
class FolderLock {
 public:
  /// Creates `folder` if it is missing and locks it through its file `.lock`, which then names the
  /// holder. In messages, `who` describes another holder, `key` names what to change, and `remedy`
  /// ends messages about files. Throws IoError if the folder cannot be created or written, or if
  /// another process holds the lock.
  FolderLock(const std::string& folder, std::string_view who, std::string_view key,
             std::string_view remedy);

 private:
  OwnedFd fd_;
};

/// Returns what the file `.lock` of `folder` says about its holder; empty if there is no such file.
/// Throws IoError if it cannot be read; `remedy` ends the message.
std::string lock_holder(const std::string& folder, std::string_view remedy);

}  // namespace shardmark
