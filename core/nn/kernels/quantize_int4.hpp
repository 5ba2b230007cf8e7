// SPDX-License-Identifier: Apache-2.0
// Block quantization of gradients, symmetric and in 4 bits: the elements of a group share a step,
// which is their largest magnitude divided by 8. Two elements share a byte; the first one is in its
// upper half.
//
// Source: DeepSpeed 0.19.8's csrc/includes/quantization_utils.h, Params<Symmetric, 4>, and
// swizzled_quantize and quant_reduce of csrc/quantization. An element is multiplied by the
// reciprocal of the step in fp32, rounded to the nearest integer, ties to even, and clamped to
// -8 … 7; so the largest positive elements are too small by up to one step, and all others differ
// by at most half a step. Restored elements are rounded to fp16, and so is each partial sum. What
// is not finite is treated as in quantize.hpp.
#pragma once

#include <cstdint>

#include <core/nn/kernels/context.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {

/// Quantizes `elems` elements in `groups` groups of equal, even size and puts the parts of the
/// ranks into the order in which they are sent. There is one part per rank, and rank r is number
/// r % node_ranks of node r / node_ranks. Parts go in the order of the former, then of the latter.
/// With 4 nodes of 2 ranks: 0 2 4 6 1 3 5 7. `to` has elems / 2 bytes.
void quantize_int4(const Context& ctx, std::int64_t elems, std::int64_t groups, int nodes,
                   int node_ranks, std::int8_t* to, float* steps, const Fp16* from);

/// Restores `tensors` tensors of `elems` elements, adds them up in their order, and quantizes the
/// sum, all in `groups` groups of equal, even size.
void reduce_int4(const Context& ctx, std::int64_t elems, std::int64_t groups, int tensors,
                 std::int8_t* to, float* steps, const std::int8_t* from, const float* from_steps);

/// to = from x the step of its group, rounded to fp16.
void dequantize_int4(const Context& ctx, std::int64_t elems, std::int64_t groups, Fp16* to,
                     const std::int8_t* from, const float* steps);

/// to = the sum of `parts` parts of `elems` elements each, in their order.
void sum_parts(const Context& ctx, std::int64_t elems, int parts, Fp16* to, const Fp16* from);

}  // namespace shardmark
