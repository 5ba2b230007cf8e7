// SPDX-License-Identifier: Apache-2.0
// The division of an average on a stream of the GPU.
#pragma once

#include <cstdint>

#include <core/gpu_runtime.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// Enqueues data[i] /= divisor for i in [0, elems) on `stream`. `data` is device memory; 16-bit
/// values are divided in fp32 and rounded once. Not collective. Throws CommError when the launch
/// fails.
void divide_on_stream(device::Stream stream, Dtype dtype, void* data, std::int64_t elems,
                      int divisor);

}  // namespace shardmark
