// SPDX-License-Identifier: Apache-2.0
// Memory that the processes of one node map together. An anonymous file: it has no name in /dev/shm
// that a killed run could leave there, and is not limited by the size of that mount.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <mpi.h>

namespace shardmark {

class SharedMapping {
 public:
  SharedMapping() = default;
  /// Collective over `comm`. Zeros; pages lie where they are touched first. Empty on all ranks,
  /// with the reason in `why_not`, where they do not all share a node or may not share memory.
  /// Throws CommError.
  static SharedMapping make(MPI_Comm comm, std::int64_t bytes, std::string& why_not);
  SharedMapping(SharedMapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMapping();

  explicit operator bool() const { return base_ != nullptr; }
  char* base() const { return base_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  bool map(int file);
  bool map_file_of(std::int64_t process, std::int64_t handle);

  char* base_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Whether `mine` is true on all ranks of `comm`. Collective. Throws CommError.
bool agree(MPI_Comm comm, bool mine);

}  // namespace shardmark
