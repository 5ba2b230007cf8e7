// SPDX-License-Identifier: Apache-2.0
// The stream on which an execution-space instance runs its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <core/kokkos_shim.hpp>

namespace shardmark::device {

inline cudaStream_t stream_of(const Space& space) {
  return space.cuda_stream();
}

}  // namespace shardmark::device
