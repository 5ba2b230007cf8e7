// SPDX-License-Identifier: Apache-2.0
// The owner of a file descriptor.
#pragma once

#include <utility>

#include <unistd.h>

namespace shardmark {

/// Owns a file descriptor that open(2) returned, and closes it. A negative number stands for no
/// descriptor. The destructor ignores errors. A caller that must know that all data has been
/// written calls `close`.
class OwnedFd {
 public:
  OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() { (void)close(); }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// Closes it now. Returns what close(2) returns.
  int close() { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

}  // namespace shardmark
