// SPDX-License-Identifier: Apache-2.0
// Files and folders that are on the disk when a call returns. A file appears whole or not at all:
// written under another name, flushed, then renamed. `remedy` ends each message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardmark {

/// What to do about a file that cannot be written into a checkpoint, or into what `--out` names.
inline constexpr std::string_view checkpoint_remedy =
    "free the space, or give another checkpoint.dir";
inline constexpr std::string_view output_remedy =
    "free the space, change the permissions, or give another --out";

/// Throws IoError "path: what: reason: remedy".
[[noreturn]] void fail_io(const std::string& path, std::string_view what, const std::string& reason,
                          std::string_view remedy);

/// A file being written: closed and removed unless `rename_to` was reached.
class TempFile {
 public:
  /// Throws IoError.
  TempFile(std::string path, std::string_view remedy);
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  /// A part of its content, for now. Throws IoError.
  void append(std::string_view content);
  /// The last part or all of its content, flushed to the disk. Once. Throws IoError.
  void write(std::string_view content);
  /// Throws IoError.
  void rename_to(const std::string& target);

 private:
  std::string path_, remedy_;
  int fd_;
  bool finished_ = false;
};

/// `folder/.name.<pid>.tmp`: what a file is called while it is written.
std::string temp_name(const std::string& folder, std::string_view name);

/// Writes `folder/name` anew, and makes that last. Throws IoError; the old file is then still
/// there.
void replace_file(const std::string& folder, const std::string& name, std::string_view content,
                  std::string_view remedy);

/// Gives a file that was written under another name its own, and makes that last. Throws IoError.
void publish_file(const std::string& written, const std::string& path, std::string_view remedy);

/// Sets disk space aside for the first `bytes` of a file, which is there, so that a full disk shows
/// now. Where the file system cannot do that it shows later. Throws IoError.
void reserve_space(const std::string& path, std::int64_t bytes, std::string_view remedy);

/// Makes what was written to a file last. Throws IoError.
void flush_file(const std::string& path, std::string_view remedy);
/// Asks the system to drop what it has cached of a file that is on the disk: the next reader reads
/// the disk. False where it does not take the request.
bool forget_cached(const std::string& path);

/// Makes names in a folder last: of new files, of renamed ones. Some network file systems cannot do
/// this, and say EINVAL; that is passed over. Throws IoError.
void flush_folder(const std::string& path, std::string_view remedy);

}  // namespace shardmark
