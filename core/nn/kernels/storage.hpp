// SPDX-License-Identifier: Apache-2.0
// Tensors as they are stored (fp32, bf16 or fp16), and kernels over parameters and gradients. The
// following holds for all of core/nn. Parameters, their gradients and every tensor [rows][...] of
// the model (the residual stream and its gradient, what forward saves, logits) have the model's
// type T. All arithmetic and all sums are in fp32, even if a sum is made in several pieces; a
// result is rounded to T once, to nearest even, when it is stored. Values of a row (mean,
// reciprocal deviation, log-sum-exp, delta, loss) are fp32, and the loss of a micro-batch is fp64.
// The scores of attention are fp32; its probabilities and the gradient of its scores are T, because
// they are operands of the next product.
#pragma once

#include <cstdint>

#include <core/nn/kernels/context.hpp>
#include <core/numeric/half.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// A tensor of `dtype`: fp32, bf16 or fp16, unless a function allows others.
struct Stored {
  Stored(Dtype type, void* pointer) : dtype(type), data(pointer) {}
  Stored(float* pointer) : dtype(Dtype::fp32), data(pointer) {}
  /// Returns the tensor from element `elem` on.
  Stored at(std::int64_t elem) const {
    return {dtype, static_cast<char*>(data) + elem * dtype_bytes(dtype)};
  }
  /// Returns the pointer to the elements. Throws PlanError if their type is not T.
  template<class T>
  T* as() const {
    require_storage<T>(dtype);
    return static_cast<T*>(data);
  }

  Dtype dtype;
  void* data;
};
/// The same for reading only.
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

/// Returns f(pointers to the elements of these tensors, which all have the type of the first one).
/// Throws PlanError for other types. `f` calls a function template that launches the kernel, since
/// nvcc accepts no kernel inside a generic lambda.
template<class F, class First, class... Others>
auto with_elements(const F& f, First first, Others... others) {
  return with_storage(first.dtype, [&](auto type) {
    using T = decltype(type);
    return f(first.template as<T>(), others.template as<T>()...);
  });
}
/// Calls `f` like with_elements, with the elements of `sums` first. These have the type of the
/// others or fp32, which gradients have that are sums of several products.
template<class F, class Sums, class First, class... Others>
void with_elements_and_sums(const F& f, Sums sums, First first, Others... others) {
  with_storage(first.dtype, [&](auto type) {
    using T = decltype(type);
    if (sums.dtype == Dtype::fp32)
      f(sums.template as<float>(), first.template as<T>(), others.template as<T>()...);
    else
      f(sums.template as<T>(), first.template as<T>(), others.template as<T>()...);
  });
}

/// to = from / divisor. The quotient is rounded to nearest even in the type of `from` (as in
/// `divide`), then in the type of `to`. If the types are equal and the divisor is 1, this is a
/// copy. fp64 is allowed with the divisor 1.
void convert(const Context& ctx, std::int64_t elems, Stored to, ConstStored from,
             double divisor = 1);

/// into += from, rounded once.
void accumulate(const Context& ctx, std::int64_t elems, Stored into, ConstStored from);

/// x /= divisor. fp64 is allowed.
void divide(const Context& ctx, std::int64_t elems, Stored x, double divisor);

/// Writes `bytes` zero bytes.
void clear(const Context& ctx, std::int64_t bytes, void* data);

/// Sets *flag to 1 if any element is infinite or not a number. If none is, `first` sets *flag to 0;
/// otherwise *flag keeps its value.
void flag_not_finite(const Context& ctx, std::int64_t elems, ConstStored x, std::uint8_t* flag,
                     bool first);

/// Copies `elems` elements between a whole tensor and its place in a rank-major buffer. Row r of
/// its `rows` rows begins at r * row_elems and holds the elements [r * shard, (r + 1) * shard),
/// where shard = ceil(elems / rows) unless `interleave` is given a larger one. What lies beyond the
/// end of the tensor is padding: `interleave` writes zeros there, and `rearrange` does not read it.
/// `interleave` copies into the buffer, divides each element as `divide` does and then rounds it in
/// the buffer's type; `rearrange` copies out of it.
void interleave(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                Stored into, ConstStored from, double divisor = 1, std::int64_t shard = 0);
void rearrange(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
               Stored into, ConstStored from);

}  // namespace shardmark
