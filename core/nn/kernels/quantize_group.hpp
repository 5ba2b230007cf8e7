// SPDX-License-Identifier: Apache-2.0
// What the quantizations in 8 and in 4 bits share: how a group's levels follow from its values.
// `half` is half the number of levels, 128 or 8.
#pragma once

#include <cmath>
#include <cstdint>

#include <core/nn/kernels/rows.hpp>

namespace shardmark::kernel {

/// Returns the nearest level of `v`, which is in steps: ties go to even, values beyond -half …
/// half - 1 to the last level, and a NaN to 0, as a GPU converts it.
template<int half>
KOKKOS_INLINE_FUNCTION int to_level(float v) {
  const float rounded = std::rint(v);
  if (!(rounded == rounded)) return 0;
  return static_cast<int>(rounded < -half ? -half : rounded > half - 1 ? half - 1 : rounded);
}

/// Returns how many steps make 1 for the group whose element j is `value(j)`; 1 for zeros. All
/// threads of the row must call it.
template<int half, class Value>
KOKKOS_INLINE_FUNCTION float levels_per_unit(const Row& row, std::int64_t size,
                                             const Value& value) {
  const float largest = row.max(size, [&](std::int64_t j) {
    const float v = value(j);
    return v < 0 ? -v : v;
  });
  return largest > 0 ? 2.0f * half / (2 * largest) : 1.0f;
}

}  // namespace shardmark::kernel
