// SPDX-License-Identifier: Apache-2.0
// Files and folders that are on the disk when a call returns. A file appears whole or not at all:
// it is written under a temporary name, flushed, then renamed. `remedy` is the end of every
// message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  /// Appends a part of the content. Throws IoError.
  void append(std::string_view content);
  /// Appends the last part of the content, or all of it, and flushes the file to the disk. Call it
  /// once. Throws IoError.
  void write(std::string_view content);
  /// Gives the file its final name. Throws IoError.
  void rename_to(const std::string& target);

 private:
  std::string path_, remedy_;
  int fd_;
  bool finished_ = false;
};

/// Returns `folder/.name.<pid>.tmp`, the name of a file while it is written.
std::string temp_name(const std::string& folder, std::string_view name);

/// Writes `folder/name` anew and flushes it to the disk. Throws IoError; the old file then still
/// exists.
void replace_file(const std::string& folder, const std::string& name, std::string_view content,
                  std::string_view remedy);

/// Renames a file that was written under a temporary name, and makes the new name durable. Throws
/// IoError.
void publish_file(const std::string& written, const std::string& path, std::string_view remedy);

/// Reserves disk space for the first `bytes` of an existing file, so that a full disk is noticed
/// now. If the file system cannot reserve space, a full disk is noticed when the file is written.
/// Throws IoError.
void reserve_space(const std::string& path, std::int64_t bytes, std::string_view remedy);

/// Flushes a file to the disk. Throws IoError.
void flush_file(const std::string& path, std::string_view remedy);
/// Asks the system to drop its cached copy of a file that is on the disk, so that the next reader
/// reads the disk. Returns false if the file system does not accept the request.
bool forget_cached(const std::string& path);

/// Makes the names in a folder durable after files were created or renamed. Some network file
/// systems cannot do this and report EINVAL, which is ignored. Throws IoError.
void flush_folder(const std::string& path, std::string_view remedy);

}  // namespace shardmark
