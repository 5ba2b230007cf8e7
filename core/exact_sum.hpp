// SPDX-License-Identifier: Apache-2.0
// The size of the exact sum of squares behind the global gradient norm under `ordered` reductions.
// A sum of squares of fp32 values is kept as one wide fixed-point number, so that the order of the
// additions, and therefore the partition and the rank count, cannot change it.
// core/nn/optimizer/grad_norm fills it; the plan sizes it; one all_reduce of int64 sums adds the
// ranks' contributions.
#pragma once

#include <cstdint>

namespace shardmark {

/// The payload of a limb in bits. The rest of its int64 holds the carries of at most 2^31
/// contributions.
inline constexpr int exact_sum_limb_bits = 32;
/// Weight of bit 0 of limb 0 is 2^exact_sum_lowest_bit: the square of the smallest fp32 denormal.
inline constexpr int exact_sum_lowest_bit = -298;
/// Limbs of payload: 2^-298 up to the largest square, 2^256, and 64 bits for the number of terms.
inline constexpr int exact_sum_payload_limbs = 20;
/// One more limb counts the elements that are not finite.
inline constexpr int exact_sum_limbs = exact_sum_payload_limbs + 1;

static_assert(exact_sum_payload_limbs * exact_sum_limb_bits >= 256 - exact_sum_lowest_bit + 64);

}  // namespace shardmark
