// SPDX-License-Identifier: Apache-2.0
// Large writes to a file that bypass the page cache if the file system allows that: data that is
// written once and read by another run should not displace anything else in memory, and little
// remains for a flush. A thread writes one piece while the next piece is prepared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <io/files/durable_file.hpp>
#include <io/files/page_buffer.hpp>

namespace shardmark {

/// One open file that is read or written past the page cache where the file system allows it.
class DirectFile {
 public:
  static constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;

  /// Opens an existing file. `remedy` ends the messages and must outlive the object. Throws
  /// IoError.
  DirectFile(std::string path, std::string_view remedy);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  /// Returns the buffer for the next piece: aligned, and not being written.
  std::byte* room() { return buffers_.data() + filling_ * piece_bytes; }
  /// Starts to write the first `bytes` of `room()` at offset `at`; afterwards room() is the other
  /// buffer. Messages name `what` if the write fails. Throws IoError if the previous write failed.
  void write(std::int64_t at, std::int64_t bytes, std::string what);
  /// Writes bytes from any memory, piece by piece. Throws IoError as `write` does.
  void copy(const FilePiece& piece, const std::string& what);
  /// Waits until everything is written, flushes it to the disk and closes the file. Call it once,
  /// at the end. Throws IoError.
  void flush_and_close();

 private:
  void wait();
  void put(std::int64_t at, std::span<const std::byte> bytes, const std::string& what) const;

  std::string path_;
  std::string_view remedy_;
  OwnedFd direct_, buffered_;  // of one file; no direct_: only through the page cache
  PageBuffer buffers_{2 * piece_bytes};
  int filling_ = 0;
  std::thread writer_;
  std::exception_ptr error_;
};

}  // namespace shardmark
