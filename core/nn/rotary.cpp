// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernel.hpp>
#include <core/nn/math.hpp>
#include <core/nn/rotary.hpp>

namespace shardmark {
namespace {

constexpr double theta = 10000.0;
constexpr std::int64_t strip = 64;  // pairs whose sines one thread keeps at a time

// Pairs [begin, begin + count) of every head of one row.
template<class T>
KOKKOS_INLINE_FUNCTION void rotate_heads(T* row, std::int64_t heads, std::int64_t half,
                                         std::int64_t begin, std::int64_t count, const float* cos,
                                         const float* sin) {
  for (std::int64_t head = 0; head < heads; ++head) {
    T* low = row + head * 2 * half + begin;
    T* high = low + half;
    kernel::simd_loop(count, [&](std::int64_t j) {
      const float a = widen(low[j]), b = widen(high[j]);
      round_to(low[j], a * cos[j] - b * sin[j]);
      round_to(high[j], b * cos[j] + a * sin[j]);
    });
  }
}

// `direction` 1 or -1. Angles are worked out in double: at fp32 they would be off by a position's
// rounding error.
template<class T>
void rotate(const Context& ctx, const char* label, const TransformerDims& dims, double direction,
            T* q, T* k) {
  const std::int64_t heads = dims.heads, kv_heads = dims.kv_heads, sequence = dims.sequence;
  const std::int64_t half = dims.head_dim() / 2;
  const double ratio = std::pow(theta, -1.0 / static_cast<double>(half));
  kernel::for_each(
      ctx, label, dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        double angle[strip];
        float cos[strip], sin[strip];
        double next = direction * static_cast<double>(r % sequence);
        for (std::int64_t begin = 0; begin < half; begin += strip) {
          const std::int64_t count = half - begin < strip ? half - begin : strip;
          for (std::int64_t j = 0; j < count; ++j, next *= ratio) angle[j] = next;
          kernel::simd_loop(count, [&](std::int64_t j) {
            const Turn t = turn_f32(angle[j]);
            cos[j] = t.cos;
            sin[j] = t.sin;
          });
          rotate_heads(q + r * heads * 2 * half, heads, half, begin, count, cos, sin);
          rotate_heads(k + r * kv_heads * 2 * half, kv_heads, half, begin, count, cos, sin);
        }
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
