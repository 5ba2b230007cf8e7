// SPDX-License-Identifier: Apache-2.0
// How far apart the cores of two ranks are: the time in which one sees what the other has written.
// Cores that share a cache are a few tens of nanoseconds apart, others several times as many. On a
// virtual machine this changes while a program runs, whenever its host moves the virtual cores.
#pragma once

#include <cstdint>

#include <mpi.h>

#include <comm/shm/shared_mapping.hpp>

namespace shardmark {

/// Measures between neighbouring ranks of a node: 0 and 1, 2 and 3, and so on.
class CoreDistance {
 public:
  /// Collective over `node`, the ranks of one node. Throws CommError.
  explicit CoreDistance(MPI_Comm node);

  /// In seconds, one way. Both ranks of a pair must call it; it takes some 50 us from the call of
  /// the later one. 0 for a rank without a neighbour, where ranks cannot share memory, and, on both
  /// ranks, if one of them comes much later, so that nothing waits for ever.
  double measure_s();

 private:
  struct Side;
  Side& side(int rank) const;
  static bool counts_up_to(const Side& other, std::uint64_t count);

  int rank_, size_;
  std::uint64_t measured_ = 0;  // how often
  SharedMapping mapping_;
};

}  // namespace shardmark
