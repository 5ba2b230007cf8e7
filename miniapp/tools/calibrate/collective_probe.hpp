// SPDX-License-Identifier: Apache-2.0
// Times single collectives on the back-end that `auto` picks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <mpi.h>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/mpi/node.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/kernels/context.hpp>
#include <core/nn/products/matmul.hpp>
#include <miniapp/ranks/clock_offset.hpp>
#include <miniapp/ranks/peers.hpp>
#include <miniapp/tools/calibrate/cold_memory.hpp>

namespace shardmark {

/// Collectives among the ranks of `comm`, on operands that no cache holds. All ranks of `peers`
/// must construct it and call its functions at once, each in its own group.
class CollectiveProbe {
 public:
  /// `largest_bytes` is the largest array; the ranks keep two of these and what sums need.
  CollectiveProbe(const Node& node, MPI_Comm comm, Peers& peers, std::int64_t largest_bytes);

  std::string_view library() const { return to_string(comm_->backend()); }
  int size() const { return comm_->size(); }

  /// Collective. The seconds from the arrival of the last rank of the group to the end on the
  /// slowest one (`spans`), the longest of all groups, of `repeats` collectives after one that does
  /// not count. `bytes` is the size of the whole array, which is rounded to whole elements per
  /// rank. With `in_place`, an all_gather's shard lies where the array has it.
  std::vector<double> times(Op op, Dtype dtype, std::int64_t bytes, int repeats,
                            bool in_place = false);

  /// Collective. The part of a collective's time by which computation beside it takes longer.
  double share_of_compute(std::int64_t bytes);

 private:
  std::int64_t scratch_bytes(Op op, Dtype d, std::int64_t elems) const;
  Collective next(Op op, Dtype dtype, std::int64_t elems, bool in_place = false);
  void update_shard(const Collective& c);

  Peers& peers_;
  MatMul matmul_;
  Context context_;
  ColdMemory send_, recv_;
  Buffer scratch_{Tier::device, 0, "shardmark::device::staging::none"};
  CommOptions options_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Communicator> lane_;  // of the same ranks, for figures
  std::optional<Peers> group_;
  std::optional<GroupClock> clock_;
};

}  // namespace shardmark
