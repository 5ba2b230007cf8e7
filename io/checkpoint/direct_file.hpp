// SPDX-License-Identifier: Apache-2.0
// Bytes of size into a file, past the page cache where the file system can: what is written once
// and read by another run need not push anything else out of memory, and a flush finds little left
// to do. One piece is written by a thread of its own while the next one is being made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>

#include <io/files/page_buffer.hpp>

namespace shardmark {

/// One open file that is read or written past the page cache where the file system allows it.
class DirectFile {
 public:
  static constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;

  /// A file that is there. Throws IoError.
  explicit DirectFile(std::string path);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  /// Room for the next piece: aligned, and not being written.
  std::byte* room() { return buffers_.data() + filling_ * piece_bytes; }
  /// Begins to write the first `bytes` of `room()` at `at`; room() is another then. `what` is named
  /// if that fails. Throws IoError, of the piece before.
  void write(std::int64_t at, std::int64_t bytes, std::string what);
  /// Waits until all is written. Throws IoError.
  void finish();

 private:
  void put(std::int64_t at, std::span<const std::byte> bytes, const std::string& what) const;

  std::string path_;
  int direct_ = -1, buffered_ = -1;  // the same file; direct_ -1: it cannot be reached so
  PageBuffer buffers_{2 * piece_bytes};
  int filling_ = 0;
  std::thread writer_;
  std::exception_ptr error_;
};

}  // namespace shardmark
