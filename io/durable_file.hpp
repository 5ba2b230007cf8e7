// SPDX-License-Identifier: Apache-2.0
// Files and folders that are on the disk when a call returns. A file appears whole or not at all:
// written under another name, flushed, then renamed. `remedy` ends each message.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

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

  /// All of its content, flushed to the disk. Once. Throws IoError.
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

/// Makes what was written to a file last. Throws IoError.
void flush_file(const std::string& path, std::string_view remedy);
/// Makes names in a folder last: of new files, of renamed ones. Some network file systems cannot do
/// this, and say EINVAL; that is passed over. Throws IoError.
void flush_folder(const std::string& path, std::string_view remedy);

}  // namespace shardmark
