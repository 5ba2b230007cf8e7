// SPDX-License-Identifier: Apache-2.0
// The sketch of a state, made where the state is.
#pragma once

#include <cstdint>
#include <span>

#include <core/nn/kernels/context.hpp>
#include <core/numeric/sketch.hpp>

namespace shardmark {

/// Adds p[elems], in memory that kernels reach, to the sums: element i of p is the element
/// `first_elem` + i of the state. The same elements give the same bits on the same kind of device.
/// Waits for the result.
void sketch_state(const Context& ctx, const float* p, std::int64_t elems, std::int64_t first_elem,
                  std::span<double, sketch_buckets> sums);

}  // namespace shardmark
