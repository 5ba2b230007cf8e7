// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/rotary.hpp>

namespace shardmark {
namespace {

constexpr double theta = 10000.0;
constexpr std::int64_t pairs_at_once = 64;  // pairs whose sines one thread keeps at a time

template<class T>
KOKKOS_INLINE_FUNCTION void turn_pair(T& low, T& high, float cos, float sin) {
  const float a = widen(low), b = widen(high);
  round_to(low, a * cos - b * sin);
  round_to(high, b * cos + a * sin);
}

// Pairs [begin, begin + count) of every head of one row.
template<class T>
KOKKOS_INLINE_FUNCTION void rotate_heads(T* row, std::int64_t heads, std::int64_t half,
                                         std::int64_t begin, std::int64_t count, const float* cos,
                                         const float* sin) {
  for (std::int64_t head = 0; head < heads; ++head) {
    T* low = row + head * 2 * half + begin;
    T* high = low + half;
    kernel::simd_loop(count, [&](std::int64_t j) { turn_pair(low[j], high[j], cos[j], sin[j]); });
  }
}

// The angles by which one row of q and of k is rotated: pair j by `angle` * `ratio`^j. They are
// computed in double; in fp32 they would have the rounding error of the position.
struct Angles {
  double angle, ratio;
  std::int64_t half;
};

template<class T>
KOKKOS_INLINE_FUNCTION void rotate_row(const kernel::ThreadRow&, const Angles& a, T* q,
                                       std::int64_t heads, T* k, std::int64_t kv_heads) {
  double angle[pairs_at_once];
  float cos[pairs_at_once], sin[pairs_at_once];
  double next = a.angle;
  for (std::int64_t begin = 0; begin < a.half; begin += pairs_at_once) {
    const std::int64_t count = a.half - begin < pairs_at_once ? a.half - begin : pairs_at_once;
    for (std::int64_t j = 0; j < count; ++j, next *= a.ratio) angle[j] = next;
    kernel::simd_loop(count, [&](std::int64_t j) {
      const CosSin t = cos_sin_f32(angle[j]);
      cos[j] = t.cos;
      sin[j] = t.sin;
    });
    rotate_heads(q, heads, a.half, begin, count, cos, sin);
    rotate_heads(k, kv_heads, a.half, begin, count, cos, sin);
  }
}

KOKKOS_INLINE_FUNCTION double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) result *= base;
  return result;
}

// Each lane has pair j of every head, so that it computes the sine of that pair once.
template<class T>
KOKKOS_INLINE_FUNCTION void rotate_row(const kernel::WarpRow& row, const Angles& a, T* q,
                                       std::int64_t heads, T* k, std::int64_t kv_heads) {
  row.loop(a.half, [&](std::int64_t j) {
    const CosSin t = cos_sin_f32(a.angle * power(a.ratio, j));
    for (std::int64_t at = j; at < heads * 2 * a.half; at += 2 * a.half)
      turn_pair(q[at], q[at + a.half], t.cos, t.sin);
    for (std::int64_t at = j; at < kv_heads * 2 * a.half; at += 2 * a.half)
      turn_pair(k[at], k[at + a.half], t.cos, t.sin);
  });
}

// `direction` is 1 (forward) or -1 (backward).
template<class T>
void rotate(const Context& ctx, const char* label, const TransformerDims& dims, double direction,
            T* q, T* k) {
  const std::int64_t heads = dims.heads, kv_heads = dims.kv_heads, sequence = dims.sequence;
  const std::int64_t half = dims.head_dim() / 2;
  const double ratio = std::pow(theta, -1.0 / static_cast<double>(half));
  kernel::for_each_row(
      ctx, label, dims.rows(), KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const Angles angles{direction * static_cast<double>(r % sequence), ratio, half};
        rotate_row(row, angles, q + r * heads * 2 * half, heads, k + r * kv_heads * 2 * half,
                   kv_heads);
      });
}

}  // namespace

void rotary_forward(const Context& ctx, const TransformerDims& dims, Stored q, Stored k) {
  with_storage(q.dtype, [&](auto type) {
    using T = decltype(type);
    rotate(ctx, "shardmark::rotary_forward", dims, 1.0, q.as<T>(), k.as<T>());
  });
}

void rotary_backward(const Context& ctx, const TransformerDims& dims, Stored dq, Stored dk) {
  with_storage(dq.dtype, [&](auto type) {
    using T = decltype(type);
    rotate(ctx, "shardmark::rotary_backward", dims, -1.0, dq.as<T>(), dk.as<T>());
  });
}

}  // namespace shardmark
