// SPDX-License-Identifier: Apache-2.0
// The groups in which DeepSpeed quantizes parameters: the elements of a group share one scale.
//
// Source: DeepSpeed 0.19.8's runtime/zero/partition_parameters.py, CUDAQuantizer.quantize. It
// starts with so many groups that none has more than 8000 elements, and adds groups until all have
// the same number of elements, which is a multiple of 8. A message without such groups fails there.
#pragma once

#include <cstdint>

namespace shardmark {

/// The elements of a group in a message of `elems` elements, of which it is a divisor; 0 if
/// DeepSpeed cannot quantize the message.
constexpr std::int64_t weight_group_elems(std::int64_t elems) {
  constexpr std::int64_t most = 8000, unit = 8;
  if (elems <= 0 || elems % unit != 0) return 0;
  for (std::int64_t size = most; size > unit; size -= unit)
    if (elems % size == 0) return size;
  // DeepSpeed refuses as many groups as elements, which cannot be here.
  return unit;
}

}  // namespace shardmark
