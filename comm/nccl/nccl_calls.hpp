// SPDX-License-Identifier: Apache-2.0
// Which NCCL call each verb becomes. One each, whatever its size: NCCL's counts have 64 bits.
//
//   all_gather      ncclAllGather      count S / size
//   reduce_scatter  ncclReduceScatter  count S / size
//   all_reduce      ncclAllReduce      count S
//   reduce          ncclReduce         count S
//   broadcast       ncclBroadcast      count S
//   barrier         ncclAllReduce      of one word of the lane's own
//
// In place is what Collective calls so: NCCL sees it by the same addresses. An average is NCCL's
// sum, divided afterwards: its own average multiplies by the reciprocal before it adds, which is
// not exact where the size is no power of two.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <comm/communicator.hpp>

namespace shardmark {

ncclDataType_t nccl_type(Dtype dtype);
/// ncclSum for sum and average, ncclMax for max.
ncclRedOp_t nccl_op(Reduction reduction);

/// Where a collective happens.
struct NcclSite {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0, size = 1;
  void* word = nullptr;  // 4 bytes of device memory, for barriers
};

/// Enqueues `c` on the site's stream. Nothing is called for no elements. Throws CommError.
void call_nccl(const Collective& c, const NcclSite& site);

/// The rest of `c`, once NCCL has enqueued it: the division of an average.
void finish_on_stream(const Collective& c, const NcclSite& site);

}  // namespace shardmark
