// SPDX-License-Identifier: Apache-2.0
// Memory that the processes of one node map together. It is an anonymous file: no name in /dev/shm
// remains after a killed run, and the size of that mount is no limit.
// Reads the memory of another process on this node (process_vm_readv). This needs one copy, while a
// transfer through shared memory needs two. Hardened systems and containers may forbid it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

namespace shardmark {

/// Owns the mapping of this process; false when there is none.
class SharedMapping {
 public:
  SharedMapping() = default;
  /// Collective over `comm`. Maps `bytes` zero bytes; each page is placed on the memory node of the
  /// rank that first writes to it. Returns an empty mapping on all ranks, with the reason in
  /// `why_not`, if the ranks do not share one node or may not share memory. Throws CommError.
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

/// Whether `mine` is true on every rank of `comm`. Collective over `comm`. Throws CommError.
bool true_on_all_ranks(MPI_Comm comm, bool mine);

/// Access to the memory of the ranks of one group.
class PeerMemory {
 public:
  /// Collective over `comm`, whose ranks share a node. Finds out whether reading is permitted.
  /// Throws CommError.
  explicit PeerMemory(MPI_Comm comm);

  /// Whether every rank may read every other rank. The same on all ranks.
  bool readable() const { return readable_; }
  /// Copies `bytes` bytes from `address` in the memory of `rank`. Not collective. Throws CommError,
  /// also when the process no longer exists.
  void read(int rank, std::uint64_t address, void* to, std::int64_t bytes) const;

 private:
  std::vector<std::int64_t> processes_;
  bool readable_ = false;
};

}  // namespace shardmark
