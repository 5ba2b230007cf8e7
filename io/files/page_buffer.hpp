// SPDX-License-Identifier: Apache-2.0
// Memory that begins at the start of a page, as O_DIRECT requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace shardmark {

/// The alignment of offsets, sizes and addresses that satisfies O_DIRECT if a disk does not state
/// its own.
inline constexpr std::int64_t page_bytes = 4096;

/// Owns uninitialised memory that begins at a page boundary.
class PageBuffer {
 public:
  explicit PageBuffer(std::int64_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{page_bytes}))) {}
  ~PageBuffer() { ::operator delete (data_, std::align_val_t{page_bytes}); }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

}  // namespace shardmark
