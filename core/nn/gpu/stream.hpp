// SPDX-License-Identifier: Apache-2.0
// The stream on which an execution-space instance runs its kernels.
#pragma once

#include <core/gpu_runtime.hpp>
#include <core/kokkos_shim.hpp>

namespace shardmark::device {

inline device::Stream stream_of(const Space& space) {
  return static_cast<Stream>(native_stream(space));
}

}  // namespace shardmark::device
