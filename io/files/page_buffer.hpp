// SPDX-License-Identifier: Apache-2.0
// Memory at the start of a page, as O_DIRECT wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace shardmark {

/// What O_DIRECT asks of places, sizes and addresses, where a disk does not say what it asks.
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
