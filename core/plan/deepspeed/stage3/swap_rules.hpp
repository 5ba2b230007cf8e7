// SPDX-License-Identifier: Apache-2.0
// Which states are large enough for a file, and how large the file is.
//
// Source: DeepSpeed 0.19's runtime/swap_tensor: is_swappable_tensor, _io_aligned_numel.
#pragma once

#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Whether a tensor of `elems` elements is written to a file. DeepSpeed keeps smaller ones in
/// memory.
inline bool worth_a_file(const AioSpec& aio, Dtype dtype, std::int64_t elems) {
  return elems * dtype_bytes(dtype) >= aio.least_bytes;
}

/// The size of every file is a multiple of so many elements.
inline std::int64_t file_unit(const AioSpec& aio, Dtype dtype) {
  return aio.alignment_bytes / dtype_bytes(dtype);
}

/// Elements of the file that holds `elems` elements. Throws SizeError beyond 63 bits.
inline std::int64_t file_elems(const AioSpec& aio, Dtype dtype, std::int64_t elems) {
  return round_up(elems, file_unit(aio, dtype), "states in a file");
}

}  // namespace shardmark
