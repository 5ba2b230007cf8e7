// SPDX-License-Identifier: Apache-2.0
// Reading what lies in another process of this node where it lies (process_vm_readv): one copy,
// where memory that both map would need two. Hardened systems and containers may forbid it.
#pragma once

#include <cstdint>
#include <vector>

#include <mpi.h>

namespace shardmark {

class PeerMemory {
 public:
  /// Collective over `comm`, whose ranks share a node. Throws CommError.
  explicit PeerMemory(MPI_Comm comm);

  /// Whether the system lets all ranks read one another. The same on all ranks.
  bool readable() const { return readable_; }
  /// Copies `bytes` from an address of `rank`'s. Throws CommError, also when it is gone.
  void read(int rank, std::uint64_t address, void* to, std::int64_t bytes) const;

 private:
  std::vector<std::int64_t> processes_;
  bool readable_ = false;
};

}  // namespace shardmark
