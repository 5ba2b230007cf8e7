// SPDX-License-Identifier: Apache-2.0
// Block quantization of parameters, symmetric and in 8 bits: the elements of a group share a step,
// which is their largest magnitude divided by 128.
//
// Source: DeepSpeed 0.19.8's csrc/includes/quantization_utils.h, Params<Symmetric, 8>. An element
// is multiplied by the reciprocal of the step in fp32, rounded to the nearest integer, ties to
// even, and clamped to -128 … 127; so the largest positive elements are too small by up to one
// step, and all others differ by at most half a step. A group of zeros has the step 1.
#pragma once

#include <cstdint>

#include <core/nn/kernels/context.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {

/// Quantizes `elems` elements in `groups` groups of equal size. `steps` receives the step of each
/// group. A NaN becomes 0; a group with an infinite element has an infinite step, and its elements
/// become NaN when they are restored.
void quantize(const Context& ctx, std::int64_t elems, std::int64_t groups, std::int8_t* to,
              float* steps, const Fp16* from);

/// to = from x the step of its group, rounded to fp16.
void dequantize(const Context& ctx, std::int64_t elems, std::int64_t groups, Fp16* to,
                const std::int8_t* from, const float* steps);

}  // namespace shardmark
