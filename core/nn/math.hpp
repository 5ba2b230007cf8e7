// SPDX-License-Identifier: Apache-2.0
// Elementary functions as plain arithmetic: they vectorise without a vector math library and give
// the same bits in every build and at every vector length (no fused multiply-add, no table).
#pragma once

#include <cstdint>
#include <cstring>

#include <Kokkos_Core.hpp>

namespace shardmark {

/// e^x in fp32, below 2 units in the last place. Below -87.33 the result is 0, above 88.37 it stays
/// at e^88.37; not-a-number stays so. x = n ln2 + r with |r| <= ln2 / 2; e^r by its series.
KOKKOS_INLINE_FUNCTION float exp_f32(float x) {
  constexpr float lowest = -87.33f, highest = 88.37f;
  constexpr float log2_e = 1.44269504088896341f;
  constexpr float ln2_high = 0.693145751953125f;      // 15 bits: n * ln2_high is exact
  constexpr float ln2_low = 1.42860682030941723e-6f;  // ln2 - ln2_high
  constexpr float round_to_int = 12582912.0f;  // 1.5 * 2^23: adding it leaves n in the low bits
  const bool underflow = x < lowest;
  float c = underflow ? lowest : x;
  c = c > highest ? highest : c;
  const float shifted = c * log2_e + round_to_int;
  const float n = shifted - round_to_int;
  const float r = (c - n * ln2_high) - n * ln2_low;
  float q = 1.0f / 5040.0f;
  q = q * r + 1.0f / 720.0f;
  q = q * r + 1.0f / 120.0f;
  q = q * r + 1.0f / 24.0f;
  q = q * r + 1.0f / 6.0f;
  q = q * r + 0.5f;
  const float exp_r = 1.0f + (r + q * (r * r));
  std::uint32_t bits = 0;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3F800000u;  // 2^n
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  return underflow ? 0.0f : exp_r * scale;
}

/// The logistic function's pieces at x: 1 / (1 + e^-x) and its complement, each without
/// cancellation.
struct Logistic {
  float value, complement;
};
KOKKOS_INLINE_FUNCTION Logistic logistic_f32(float x) {
  const float e = exp_f32(-x > 80.0f ? 80.0f : -x);  // bounded: 1 / (1 + e) stays normal
  const float value = 1.0f / (1.0f + e);
  return {value, e * value};
}

// GELU in its tanh form (Hendrycks and Gimpel, 2016): x/2 (1 + tanh(u)) = x logistic(2u) with
// u = sqrt(2/pi) (x + 0.044715 x^3).
inline constexpr float gelu_scale = 0.797884560802865356f, gelu_cubic = 0.044715f;

KOKKOS_INLINE_FUNCTION Logistic gelu_gate(float x) {
  return logistic_f32(2.0f * gelu_scale * (x + gelu_cubic * (x * x * x)));
}
KOKKOS_INLINE_FUNCTION float gelu_f32(float x) {
  return x * gelu_gate(x).value;
}

/// GELU and its derivative at x.
struct GeluValue {
  float value, slope;
};
KOKKOS_INLINE_FUNCTION GeluValue gelu_with_slope_f32(float x) {
  const Logistic gate = gelu_gate(x);
  const float value = x * gate.value;
  const float du = 2.0f * gelu_scale * (1.0f + 3.0f * gelu_cubic * (x * x));
  return {value, gate.value + value * gate.complement * du};
}

}  // namespace shardmark
