// SPDX-License-Identifier: Apache-2.0
// Replaces core/nn/gpu/stream.hpp: execution-space instances of the host have no stream.
#pragma once

#include <core/gpu_runtime.hpp>
#include <core/kokkos_shim.hpp>

namespace shardmark::device {

inline device::Stream stream_of(const Space&) {
  return nullptr;
}

}  // namespace shardmark::device
