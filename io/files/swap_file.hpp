// SPDX-License-Identifier: Apache-2.0
// A file that stands in for memory: states that are read and written as a whole, step after step.
// The file has no name, so nothing remains of it however the process ends. Its disk space is
// reserved when it is created. Transfers bypass the page cache if the file system allows that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <core/owned_fd.hpp>
#include <io/files/page_buffer.hpp>

namespace shardmark {

/// Returns the bytes that are free for this user on the disk of `folder`. Throws IoError if the
/// path does not exist or is not a folder.
std::int64_t free_disk_bytes(const std::string& folder);

/// A nameless file of fixed size that threads read and write at any offset.
class SwapFile {
 public:
  /// The buffer for transfers whose memory is not aligned as the disk requires. Each worker has
  /// one.
  struct Bounce : PageBuffer {
    static constexpr std::int64_t bytes = std::int64_t{1} << 20;
    Bounce() : PageBuffer(bytes) {}
  };

  /// Creates a file of `bytes` on the disk of `folder`. Throws IoError if the folder does not
  /// exist, permissions are missing, or the disk is full.
  SwapFile(std::string folder, std::int64_t bytes);

  /// Transfer bytes from or to any memory, at most `step` bytes per system call. Only one worker at
  /// a time may use a file. They throw IoError.
  void read(std::int64_t at, std::int64_t bytes, std::byte* to, std::int64_t step,
            const Bounce& bounce) const;
  void write(std::int64_t at, std::int64_t bytes, const std::byte* from, std::int64_t step,
             const Bounce& bounce) const;

  /// Returns the size of the file as the file system reports it.
  std::int64_t bytes() const;
  /// Returns whether transfers bypass the page cache.
  bool direct() const { return static_cast<bool>(direct_); }

  /// Maps the whole file into memory until `unmap`, so that it can be inspected between steps. No
  /// transfer may run meanwhile. Throws IoError.
  std::byte* map() const;
  void unmap() const { mapped_.reset(); }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };
  template<class Byte, class Call>
  void transfer(std::int64_t at, std::int64_t bytes, Byte* memory, std::int64_t step,
                const Bounce& bounce, Call call, const char* what) const;
  OwnedFd open_unnamed() const;
  void open_direct();

  std::string folder_;
  std::int64_t bytes_;
  OwnedFd buffered_, direct_;  // of one file; no direct_: only through the page cache
  std::int64_t memory_alignment_ = page_bytes;
  mutable std::unique_ptr<std::byte, Unmap> mapped_;
};

}  // namespace shardmark
