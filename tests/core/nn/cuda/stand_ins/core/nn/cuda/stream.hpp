// SPDX-License-Identifier: Apache-2.0
// Replaces core/nn/cuda/stream.hpp: execution-space instances of the host have no stream.
#pragma once

#include <cuda_runtime_api.h>

#include <core/kokkos_shim.hpp>

namespace shardmark::device {

inline cudaStream_t stream_of(const Space&) {
  return nullptr;
}

}  // namespace shardmark::device
