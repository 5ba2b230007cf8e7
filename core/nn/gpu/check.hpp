// SPDX-License-Identifier: Apache-2.0
// Checks of calls of the GPU's run time and of its library of products, made where the call is
// made: SHARDMARK_DEVICE(EventRecord, event, stream) and SHARDMARK_PRODUCT(Create, &handle).
#pragma once

#include <string_view>

#include <core/gpu_runtime.hpp>
#include <core/nn/gpu/product_library.hpp>

namespace shardmark::device {

/// Throws unless `code` is success: MemoryError if the device has no memory left, else CommError,
/// because a device that fails is treated like a peer that is lost. `file` and `line` are those of
/// the caller.
void check(device::Status code, std::string_view call, std::string_view file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(blas::Status code, std::string_view call, std::string_view file = __builtin_FILE(),
           int line = __builtin_LINE());

}  // namespace shardmark::device

#define SHARDMARK_DEVICE(name, ...)                            \
  ::shardmark::device::check(SHARDMARK_GPU(name)(__VA_ARGS__), \
                             SHARDMARK_TEXT_OF(SHARDMARK_GPU(name)))
#define SHARDMARK_PRODUCT(name, ...)                            \
  ::shardmark::device::check(SHARDMARK_BLAS(name)(__VA_ARGS__), \
                             SHARDMARK_TEXT_OF(SHARDMARK_BLAS(name)))
