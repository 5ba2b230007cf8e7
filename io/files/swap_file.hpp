// SPDX-License-Identifier: Apache-2.0
// A file that stands in for memory: states that are read and written whole, step after step. It has
// no name, so nothing of it is left behind, however the process ends; its room on the disk is set
// aside when it is made. Transfers go past the page cache where the file system can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <io/files/page_buffer.hpp>

namespace shardmark {

/// What a folder's disk has free for this user, bytes. Throws IoError: no such folder, no folder.
std::int64_t free_disk_bytes(const std::string& folder);

/// A nameless file of fixed size that threads read and write at any offset.
class SwapFile {
 public:
  /// What transfers go through where memory does not suit the disk; a worker has one.
  struct Bounce : PageBuffer {
    static constexpr std::int64_t bytes = std::int64_t{1} << 20;
    Bounce() : PageBuffer(bytes) {}
  };

  /// `bytes` on the disk of `folder`. Throws IoError: no such folder, no permission, no room.
  SwapFile(std::string folder, std::int64_t bytes);
  ~SwapFile();
  SwapFile(SwapFile&& other) noexcept;
  SwapFile& operator=(SwapFile&&) = delete;
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  /// Transfers, at most `step` bytes a system call; any memory will do. A worker's, one at a time a
  /// file. Throw IoError.
  void read(std::int64_t at, std::int64_t bytes, std::byte* to, std::int64_t step,
            const Bounce& bounce) const;
  void write(std::int64_t at, std::int64_t bytes, const std::byte* from, std::int64_t step,
             const Bounce& bounce) const;

  /// Its size, as the file system has it.
  std::int64_t bytes() const;
  /// Whether transfers reach the disk itself.
  bool direct() const { return direct_ >= 0; }

  /// All of it as memory, until `unmap`: to look at it between steps. No transfer meanwhile.
  /// Throws IoError.
  std::byte* map() const;
  void unmap() const;

 private:
  template<class Byte, class Call>
  void transfer(std::int64_t at, std::int64_t bytes, Byte* memory, std::int64_t step,
                const Bounce& bounce, Call call, const char* what) const;
  int open_unnamed() const;
  void open_direct();

  std::string folder_;
  std::int64_t bytes_;
  int buffered_ = -1, direct_ = -1;  // the same file; direct_ -1: it cannot be reached so
  std::int64_t memory_alignment_ = page_bytes;
  mutable std::byte* mapped_ = nullptr;
};

}  // namespace shardmark
