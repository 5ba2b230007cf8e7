// SPDX-License-Identifier: Apache-2.0
// Which of the two ways to make bf16 products is the faster one here: processors with matrix tiles
// (AMX) do bf16 several times faster than fp32, those with bf16 dot products alone more slowly.
#pragma once

#include <cstdint>

#include <core/nn/products/matmul.hpp>

namespace shardmark {

/// Whether the library has bf16 products for this processor. Local; allocates a little.
bool has_native_bf16(const Space& space);

/// Seconds that a transformer's three kinds of products take together, the best of a few
/// repetitions; `native` is infinite where there is none.
struct Bf16Speed {
  double native_s = 0, widened_s = 0;
  Bf16Products faster() const {
    return native_s < widened_s ? Bf16Products::native : Bf16Products::widened;
  }
};

/// Measures both with scratch of `scratch_cap_bytes` of its own: a tenth of a second. Local.
Bf16Speed measure_bf16(const Space& space, std::int64_t scratch_cap_bytes);

}  // namespace shardmark
