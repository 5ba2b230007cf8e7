// SPDX-License-Identifier: Apache-2.0
// Tensors as they are stored, fp32, bf16 or fp16, and kernels over parameters and gradients. What
// holds for all of core/nn: parameters, their gradients and every tensor [rows][...] of the model
// (residual stream and its gradient, what forward saves, logits) are of the model's type T. All
// arithmetic is in fp32, and so is every sum, in however many pieces it comes; a result is rounded
// to T once, to nearest even, when it is stored. What is [rows] alone (mean, reciprocal deviation,
// log-sum-exp, delta, loss of a row) is fp32, the loss of a micro-batch fp64. Attention's scores
// are fp32; its probabilities and the scores' gradient are T, as operands of the next product.
#pragma once

#include <cstdint>

#include <core/nn/kernels/context.hpp>
#include <core/numeric/half.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// A tensor of `dtype`, which must be one of the three where nothing else is said.
struct Stored {
  Stored(Dtype type, void* pointer) : dtype(type), data(pointer) {}
  Stored(float* pointer) : dtype(Dtype::fp32), data(pointer) {}
  /// From element `elem` on.
  Stored at(std::int64_t elem) const {
    return {dtype, static_cast<char*>(data) + elem * dtype_bytes(dtype)};
  }
  /// Throws PlanError where the elements are not Ts.
  template<class T>
  T* as() const {
    require_storage<T>(dtype);
    return static_cast<T*>(data);
  }

  Dtype dtype;
  void* data;
};
/// The same, only read.
struct ConstStored {
  ConstStored(Dtype type, const void* pointer) : dtype(type), data(pointer) {}
  ConstStored(const float* pointer) : dtype(Dtype::fp32), data(pointer) {}
  ConstStored(const Stored& s) : dtype(s.dtype), data(s.data) {}
  ConstStored at(std::int64_t elem) const {
    return {dtype, static_cast<const char*>(data) + elem * dtype_bytes(dtype)};
  }
  template<class T>
  const T* as() const {
    require_storage<T>(dtype);
    return static_cast<const T*>(data);
  }

  Dtype dtype;
  const void* data;
};

/// Calls `f` with a value of x's type and one of dy's, which is the same or fp32: gradients that
/// are sums of several products.
template<class F>
void with_types(ConstStored x, ConstStored dy, const F& f) {
  with_storage(x.dtype, [&](auto type) {
    if (dy.dtype == Dtype::fp32)
      f(type, float{});
    else
      f(type, type);
  });
}

/// to = from / divisor, which is rounded to nearest even in from's type (as `divide` does it), then
/// in to's; a copy where the types are equal and the divisor is 1. fp64 is taken too, undivided.
void convert(const Context& ctx, std::int64_t elems, Stored to, ConstStored from,
             double divisor = 1);

/// into += from, rounded once.
void accumulate(const Context& ctx, std::int64_t elems, Stored into, ConstStored from);

/// x /= divisor; fp64 is taken too.
void divide(const Context& ctx, std::int64_t elems, Stored x, double divisor);

/// bytes of zero.
void clear(const Context& ctx, std::int64_t bytes, void* data);

/// *flag = 1 if any element is infinite or not a number; `first`: else 0.
void flag_not_finite(const Context& ctx, std::int64_t elems, ConstStored x, std::uint8_t* flag,
                     bool first);

/// Copies `elems` elements between a whole tensor and its place in a rank-major buffer of `rows`
/// rows: row r, of distance `row_elems`, holds elements [r * shard, (r + 1) * shard). What lies
/// beyond the tensor's end is padding: written as zero, not read. On its way into the buffer an
/// element is divided, as `divide` does it.
void interleave(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                Stored into, ConstStored from, double divisor = 1);
void rearrange(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
               Stored into, ConstStored from);

}  // namespace shardmark
