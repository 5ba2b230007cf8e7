// SPDX-License-Identifier: Apache-2.0
// 16-bit floating-point values, stored as their bits. Widening to fp32 is exact; rounding goes to
// the nearest value, ties to even, and keeps NaNs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include <core/error.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// A value of bfloat16: 8 bits of exponent, 7 of mantissa.
struct Bf16 {
  std::uint16_t bits = 0;
};

/// A value of IEEE binary16: 5 bits of exponent, 10 of mantissa.
struct Fp16 {
  std::uint16_t bits = 0;
};

/// The value as fp32, exactly.
constexpr float widen(Bf16 v) {
  return std::bit_cast<float>(std::uint32_t{v.bits} << 16);
}

/// The value as fp32, exactly.
// There are no branches, so that compilers vectorise this code. A denormal (or zero) is read as if
// it had an implicit leading one, which the subtraction of `one` removes exactly.
constexpr float widen(Fp16 v) {
  const std::uint32_t sign = (v.bits & 0x8000u) << 16, magnitude = (v.bits & 0x7fffu) << 13;
  const bool denormal = magnitude < (1u << 23),
             infinite = magnitude >= (31u << 23);  // infinity or NaN
  const std::uint32_t rebias = ((infinite ? 255u - 31u : 127u - 15u) + (denormal ? 1u : 0u)) << 23;
  const auto one = std::bit_cast<float>(denormal ? (127u - 14u) << 23 : 0u);
  const auto wide = std::bit_cast<float>(magnitude + rebias) - one;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(wide) | sign);
}

/// The nearest bf16 value, ties to even. NaN stays NaN.
constexpr Bf16 round_bf16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
  // The carry of `nearest` could turn a NaN into infinity. `f != f` is a single vector instruction.
  const std::uint32_t rounded = f != f ? bits | 0x400000u : nearest;
  return {static_cast<std::uint16_t>(rounded >> 16)};
}

/// The nearest fp16 value, ties to even. NaN stays NaN; values from 65520 on become infinity.
constexpr Fp16 round_fp16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Below 2^-14, adding 0.5 rounds to multiples of 2^-24. Values from 65520 on become infinity.
  const std::uint32_t denormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t finite = magnitude < 0x38800000u ? denormal : normal;
  const std::uint32_t half = magnitude >= 0x477ff000u ? 0x7c00u : finite;
  return {static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7e00u : half))};
}

/// fp32 has the same functions, so that a template serves all storage types.
constexpr float widen(float v) {
  return v;
}
constexpr void round_to(float& to, float v) {
  to = v;
}
constexpr void round_to(Bf16& to, float v) {
  to = round_bf16(v);
}
constexpr void round_to(Fp16& to, float v) {
  to = round_fp16(v);
}

/// The Dtype that T stores.
template<class T>
inline constexpr Dtype storage_of = std::is_same_v<T, float>  ? Dtype::fp32
                                    : std::is_same_v<T, Bf16> ? Dtype::bf16
                                                              : Dtype::fp16;

/// Throws PlanError when T is not the type that stores `dtype`.
template<class T>
void require_storage(Dtype dtype) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, Bf16> || std::is_same_v<T, Fp16>);
  if (dtype != storage_of<T>)
    throw PlanError("dtype of a tensor = " + std::string(to_string(dtype)) + ": must be " +
                    std::string(to_string(storage_of<T>)) + ", as the tensors used with it");
}

/// Calls `f` with a value of the type that stores `dtype`, and returns the result. Throws PlanError
/// for types that parameters and gradients cannot have.
template<class F>
auto with_storage(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::fp32: return f(float{});
    case Dtype::bf16: return f(Bf16{});
    case Dtype::fp16: return f(Fp16{});
    default: break;
  }
  throw PlanError("dtype = " + std::string(to_string(dtype)) +
                  ": must be fp32, bf16 or fp16 for parameters and gradients");
}

/// to[i] = from[i] for i in [0, n), rounded to `dtype`. Throws as with_storage.
inline void round_values(const float* from, std::int64_t n, Dtype dtype, void* to) {
  with_storage(dtype, [&](auto type) {
    using T = decltype(type);
    std::transform(from, from + n, static_cast<T*>(to), [](float value) {
      T rounded;
      round_to(rounded, value);
      return rounded;
    });
  });
}

}  // namespace shardmark
