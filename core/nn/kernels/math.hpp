// SPDX-License-Identifier: Apache-2.0
// Elementary functions as plain arithmetic. They vectorise without a vector math library and give
// the same bits in every build and at every vector length, because they use no tables and fuse
// multiply-adds only where the code says std::fma.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include <Kokkos_Core.hpp>

namespace shardmark {

/// e^x in fp32, within 1.02 units in the last place. Below -87.33 the result is 0; above 88.37 it
/// is e^88.37; not-a-number stays not-a-number. Method: x = n ln2 + r with |r| <= ln2 / 2, and e^r
/// = 1 + r + q r^2, where q is the polynomial of degree 4 with the least relative error of e^r
/// (3e-9).
KOKKOS_INLINE_FUNCTION float exp_f32(float x) {
  constexpr float lowest = -87.33f, highest = 88.37f;
  constexpr float log2_e = 1.44269504088896341f;
  constexpr float ln2_high = 0.693145751953125f;      // 15 bits: n * ln2_high is exact
  constexpr float ln2_low = 1.42860682030941723e-6f;  // ln2 - ln2_high
  // 1.5 * 2^23: adding it leaves n in the low bits of the sum.
  constexpr float round_to_int = 12582912.0f;
  const bool underflow = x < lowest;
  float c = underflow ? lowest : x;
  c = c > highest ? highest : c;
  const float shifted = std::fma(c, log2_e, round_to_int);
  const float n = shifted - round_to_int;
  const float r = std::fma(-n, ln2_low, std::fma(-n, ln2_high, c));
  float q = 0x1.6a23dcp-10f;
  q = std::fma(q, r, 0x1.123a24p-7f);
  q = std::fma(q, r, 0x1.5558f2p-5f);
  q = std::fma(q, r, 0x1.555490p-3f);
  q = std::fma(q, r, 0x1.fffffcp-2f);
  const float exp_r = 1.0f + std::fma(q, r * r, r);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3F800000u;  // 2^n
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  return underflow ? 0.0f : exp_r * scale;
}

/// The logistic function 1 / (1 + e^-x) and its complement, both computed without cancellation.
struct Logistic {
  float value, complement;
};
KOKKOS_INLINE_FUNCTION Logistic logistic_f32(float x) {
  // Bounded, so that 1 / (1 + e) stays a normal number.
  const float e = exp_f32(-x > 80.0f ? 80.0f : -x);
  const float value = 1.0f / (1.0f + e);
  return {value, e * value};
}

/// The hyperbolic tangent. Its relative error is below 4e-7: near 0 it is a series.
KOKKOS_INLINE_FUNCTION float tanh_f32(float x) {
  const float size = x < 0 ? -x : x, z = x * x;
  const float e = exp_f32(-2.0f * size);
  const float far = (1.0f - e) / (1.0f + e);
  float series = -1382.0f / 155925.0f;
  series = series * z + 62.0f / 2835.0f;
  series = series * z - 17.0f / 315.0f;
  series = series * z + 2.0f / 15.0f;
  series = series * z - 1.0f / 3.0f;
  const float near = x + x * (z * series);
  return size < 0.3f ? near : x < 0 ? -far : far;
}

/// Cosine and sine of an angle with |angle| < 2^28. The error of each is below 1e-7.
struct CosSin {
  float cos, sin;
};
// angle = n pi/2 + r with |r| <= pi/4, computed in double; sin r and cos r by their series.
KOKKOS_INLINE_FUNCTION CosSin cos_sin_f32(double angle) {
  constexpr double two_over_pi = 0.636619772367581343;
  constexpr double half_pi_high = 1.5707963109016418;     // 25 bits: n * half_pi_high is exact
  constexpr double half_pi_low = 1.58932547735281967e-8;  // pi / 2 - half_pi_high
  constexpr double round_to_int = 6755399441055744.0;     // 1.5 * 2^52, as in exp_f32
  const double shifted = angle * two_over_pi + round_to_int;
  const double n = shifted - round_to_int;
  const auto r = static_cast<float>((angle - n * half_pi_high) - n * half_pi_low);
  std::uint64_t quadrant = 0;
  std::memcpy(&quadrant, &shifted, sizeof quadrant);
  const float z = r * r;
  float s = 1.0f / 362880.0f;
  s = s * z - 1.0f / 5040.0f;
  s = s * z + 1.0f / 120.0f;
  s = s * z - 1.0f / 6.0f;
  const float sin_r = r + r * (z * s);
  float c = -1.0f / 3628800.0f;
  c = c * z + 1.0f / 40320.0f;
  c = c * z - 1.0f / 720.0f;
  c = c * z + 1.0f / 24.0f;
  c = c * z - 0.5f;
  const float cos_r = 1.0f + z * c;
  const bool swap = (quadrant & 1) != 0;
  const float sin_abs = swap ? cos_r : sin_r, cos_abs = swap ? sin_r : cos_r;
  return {((quadrant + 1) & 2) != 0 ? -cos_abs : cos_abs, (quadrant & 2) != 0 ? -sin_abs : sin_abs};
}

/// GELU in its tanh form (Hendrycks and Gimpel, 2016): x/2 (1 + tanh(u)) = x logistic(2u) with u =
/// sqrt(2/pi) (x + 0.044715 x^3).
inline constexpr float gelu_scale = 0.797884560802865356f, gelu_cubic = 0.044715f;

/// The logistic factor of GELU.
KOKKOS_INLINE_FUNCTION Logistic gelu_gate(float x) {
  return logistic_f32(2.0f * gelu_scale * (x + gelu_cubic * (x * x * x)));
}
/// GELU.
KOKKOS_INLINE_FUNCTION float gelu_f32(float x) {
  return x * gelu_gate(x).value;
}

/// GELU and its derivative at one x.
struct GeluValue {
  float value, slope;
};
/// Computes both with one exponential.
KOKKOS_INLINE_FUNCTION GeluValue gelu_with_slope_f32(float x) {
  const Logistic gate = gelu_gate(x);
  const float value = x * gate.value;
  const float du = 2.0f * gelu_scale * (1.0f + 3.0f * gelu_cubic * (x * x));
  return {value, gate.value + value * gate.complement * du};
}

}  // namespace shardmark
