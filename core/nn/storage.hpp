// SPDX-License-Identifier: Apache-2.0
// Kernels over parameters and gradients as they are stored: fp32, bf16 or fp16. Arithmetic is in
// fp32, rounded once to what is stored; each element's result depends on it alone.
#pragma once

#include <cstdint>

#include <core/nn/context.hpp>
#include <core/plan/types.hpp>

namespace shardmark {

/// A buffer of `dtype`, which must be one of the three where nothing else is said.
struct Stored {
  Stored(Dtype type, void* pointer) : dtype(type), data(pointer) {}
  Stored(float* pointer) : dtype(Dtype::fp32), data(pointer) {}
  Dtype dtype;
  void* data;
};
/// The same, only read.
struct ConstStored {
  ConstStored(Dtype type, const void* pointer) : dtype(type), data(pointer) {}
  ConstStored(const float* pointer) : dtype(Dtype::fp32), data(pointer) {}
  ConstStored(const Stored& s) : dtype(s.dtype), data(s.data) {}
  Dtype dtype;
  const void* data;
};

/// to = from, rounded to nearest even; a copy where the types are equal. fp64 is taken too.
void convert(const Context& ctx, std::int64_t elems, Stored to, ConstStored from);

/// into += from, rounded once.
void accumulate(const Context& ctx, std::int64_t elems, Stored into, ConstStored from);

/// x /= divisor; fp64 is taken too.
void divide(const Context& ctx, std::int64_t elems, Stored x, double divisor);

/// bytes of zero.
void clear(const Context& ctx, std::int64_t bytes, void* data);

/// *flag = 1 if any element is infinite or not a number; `first`: else 0. Waits for the result.
void flag_not_finite(const Context& ctx, std::int64_t elems, ConstStored x, std::uint8_t* flag,
                     bool first);

/// Copies `elems` elements between a whole tensor and its place in a rank-major buffer of `rows`
/// rows: row r, of distance `row_elems`, holds elements [r * shard, (r + 1) * shard). What lies
/// beyond the tensor's end is padding: written as zero, not read.
void interleave(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                Stored into, ConstStored from);
void rearrange(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
               Stored into, ConstStored from);

}  // namespace shardmark
