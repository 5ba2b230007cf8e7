// SPDX-License-Identifier: Apache-2.0
// Which NCCL calls implement each operation. One is enough for any size, since NCCL's counts
// have 64 bits.
//
//   all_gather      ncclAllGather      count S / size
//   reduce_scatter  ncclReduceScatter  count S / size
//   all_reduce      ncclAllReduce      count S
//   reduce          ncclReduce         count S
//   broadcast       ncclBroadcast      count S
//   all_to_all      ncclSend, ncclRecv to and from each rank in one group, count S / size
//   barrier         ncclAllReduce      of one word that belongs to the lane
//
// NCCL recognises in-place collectives by their addresses, as Collective defines them. An average
// is NCCL's sum followed by a division: NCCL's own average multiplies by the reciprocal before it
// adds, which is not exact unless the size is a power of two.
#pragma once

#include <comm/communicator.hpp>
#include <comm/nccl/nccl_library.hpp>

namespace shardmark {

/// The NCCL type of `dtype`.
ncclDataType_t nccl_type(Dtype dtype);
/// ncclSum for sum and average, ncclMax for max.
ncclRedOp_t nccl_op(Reduction reduction);

/// The lane on which a collective takes place.
struct NcclLane {
  ncclComm_t comm = nullptr;
  device::Stream stream = nullptr;
  int rank = 0, size = 1;
  void* word = nullptr;  // 4 bytes of device memory, used by barriers
};

/// Enqueues `c` on the lane's stream; with no elements it makes no call. Counts in `moved` what it
/// gives to NCCL and gets from it. Collective. Throws CommError.
void call_nccl(const Collective& c, const NcclLane& lane, Moved& moved);

/// Enqueues what remains of `c` after NCCL's call: the division of an average. Throws CommError.
void finish_on_stream(const Collective& c, const NcclLane& lane);

}  // namespace shardmark
