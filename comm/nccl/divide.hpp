// SPDX-License-Identifier: Apache-2.0
// The division of an average, on a stream: a CUDA kernel of our own.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// data[i] /= divisor, i in [0, elems), after what `stream` has been given. Device memory; 16-bit
/// values are divided in fp32 and rounded once. Throws CommError where it cannot be launched.
void divide_on_stream(cudaStream_t stream, Dtype dtype, void* data, std::int64_t elems,
                      int divisor);

}  // namespace shardmark
