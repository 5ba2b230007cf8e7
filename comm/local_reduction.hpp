// SPDX-License-Identifier: Apache-2.0
// The local half of a reduction: sums of all ranks' contributions in rank order, and the division
// of an average. Sums of fp32 and 16-bit values are in fp32, of fp64 in fp64; rounded once, at the
// end.
#pragma once

#include <cstdint>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// out[i] = rows[0][i] op rows[1][i] op … in this order, divided by `size` for an average.
/// `rows` holds the addresses of `size` contributions of `elems` elements. `out` may be one of
/// them, and may not overlap them otherwise. An average of integers rounds towards zero.
void combine_in_rank_order(Dtype dtype, Reduction reduction, const void* const* rows, int size,
                           void* out, std::int64_t elems);

/// Divides in place, once: not a multiplication by the reciprocal. Integers round towards zero.
void divide(Dtype dtype, void* data, std::int64_t elems, int divisor);

}  // namespace shardmark
