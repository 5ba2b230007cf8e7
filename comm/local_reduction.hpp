// SPDX-License-Identifier: Apache-2.0
// The local part of a reduction: the sum of all ranks' contributions in rank order, and the
// division of an average. fp32 and 16-bit values are summed in fp32, fp64 in fp64; the result is
// rounded once.
#pragma once

#include <cstdint>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// out[i] = rows[0][i] op rows[1][i] op … in this order, divided by `size` for an average. `rows`
/// holds the addresses of `size` contributions of `elems` elements each. `out` may be equal to one
/// of them but must not overlap them otherwise. An average of integers rounds towards zero.
void combine_in_rank_order(Dtype dtype, Reduction reduction, const void* const* rows, int size,
                           void* out, std::int64_t elems);

/// Divides each element in place; it does not multiply by the reciprocal, which would round
/// differently. Integers round towards zero. Throws CommError for 16-bit types.
void divide(Dtype dtype, void* data, std::int64_t elems, int divisor);

}  // namespace shardmark
