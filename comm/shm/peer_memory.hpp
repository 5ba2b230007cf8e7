// SPDX-License-Identifier: Apache-2.0
// Reads the memory of another process on this node (process_vm_readv). This needs one copy, while a
// transfer through shared memory needs two. Hardened systems and containers may forbid it.
#pragma once

#include <cstdint>
#include <vector>

#include <mpi.h>

namespace shardmark {

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
