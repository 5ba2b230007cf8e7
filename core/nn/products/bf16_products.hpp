// SPDX-License-Identifier: Apache-2.0
// Which of the two ways to compute bf16 products is faster on this processor. Processors with
// matrix tiles (AMX) compute bf16 several times faster than fp32; those with bf16 dot products only
// are slower in bf16.
#pragma once

#include <cstdint>

#include <core/nn/products/matmul.hpp>

namespace shardmark {

/// Returns whether the library has bf16 products for this processor. Local; allocates a little
/// memory.
bool has_native_bf16(const Space& space);

/// The seconds that a transformer's three kinds of products take together, the best of a few
/// repetitions. `native_s` is infinite if the processor has no bf16 products.
struct Bf16Speed {
  double native_s = 0, widened_s = 0;
  Bf16Products faster() const {
    return native_s < widened_s ? Bf16Products::native : Bf16Products::widened;
  }
};

/// Measures both ways with scratch of its own of `scratch_cap_bytes`. Takes a tenth of a second.
/// Local.
Bf16Speed measure_bf16(const Space& space, std::int64_t scratch_cap_bytes);

}  // namespace shardmark
