// SPDX-License-Identifier: Apache-2.0
// The kernels of one tile of attention: what happens to its scores between two products. Only
// attention.cpp uses this header.
#pragma once

#include <cmath>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/numeric/alibi.hpp>

namespace shardmark::attention_tiles {

// One tile: the query rows [first, first + rows) of a sample and the keys [key0, key0 + keys), for
// `heads` heads that share no keys.
struct Tile {
  std::int64_t first, rows, key0, keys, heads;
  std::int64_t ld;  // distance between rows of scores
  std::int64_t
      stats_ld;         // distance between the log-sum-exps of two heads, and between their deltas
  std::int64_t window;  // keys that a row sees
  float scale;          // 1 / sqrt(head_dim) unless the rules say otherwise
  const float* sinks = nullptr;  // of the tile's first head
  std::int64_t sink_stride = 0;  // distance between those of two heads

  // The keys that a row sees, counted from key0.
  KOKKOS_INLINE_FUNCTION std::int64_t seen_from(std::int64_t row) const {
    const std::int64_t oldest = row - window + 1;
    return oldest > key0 ? oldest - key0 : 0;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t seen_to(std::int64_t row) const { return row + 1 - key0; }
  // The sink of a head, which without sinks changes no sum.
  KOKKOS_INLINE_FUNCTION float sink(std::int64_t head) const {
    return sinks != nullptr ? sinks[head * sink_stride] : -INFINITY;
  }
};

// A score as softmax sees it, and its derivative with respect to the product of query and key.
struct ScoreValue {
  float value, slope;
};
// The usual score is the product, and softmax applies the scale.
struct PlainScores {
  static constexpr bool shapes = false;
  KOKKOS_INLINE_FUNCTION float distance_slope(std::int64_t) const { return 0; }
};
// Scores with a softcap (Gemma 2) or with a bias by the distance of the key (Press et al., ALiBi,
// 2022). Softmax ignores what all scores of a row share, so the distance is as good as the
// position.
struct ShapedScores {
  static constexpr bool shapes = true;
  float softcap, alibi;
  std::int64_t first_head, head_stride, heads;

  KOKKOS_INLINE_FUNCTION float distance_slope(std::int64_t tile_head) const {
    if (alibi == 0) return 0;
    return alibi * std::exp2(alibi_exponent(first_head + tile_head * head_stride, heads));
  }
  KOKKOS_INLINE_FUNCTION ScoreValue operator()(float scaled, float scale, float bias) const {
    if (softcap == 0) return {scaled + bias, scale};
    const float t = tanh_f32(scaled / softcap);
    return {softcap * t + bias, scale * (1 - t * t)};
  }
};

// A tile and the shapes of its products. The query heads of a tile's batch are `group` heads apart,
// and the key heads that they use are neighbours. The query heads of a group are in different
// tiles, so that their parts of dk and dv are added one after another, always in the same order.
class TileView {
 public:
  TileView(const TransformerDims& dims, const AttentionTile& size, std::int64_t first)
      : d_(dims.head_dim()), q_stride_(dims.heads / dims.kv_heads * d_), ld_(size.score_ld) {
    const std::int64_t window = dims.rules.window;
    tile.first = first;
    tile.rows = std::min(size.query_rows, dims.sequence - first);
    tile.key0 = first_key_of_tile(dims, first);
    tile.keys = first + tile.rows - tile.key0;
    tile.window = window > 0 ? window : dims.sequence;
    tile.heads = size.heads;
    tile.ld = ld_;
    tile.stats_ld = dims.heads / dims.kv_heads * dims.sequence;
    tile.scale = static_cast<float>(
        dims.rules.scale > 0 ? dims.rules.scale : 1.0 / std::sqrt(static_cast<double>(d_)));
  }

  // scores[rows][keys] = Q[rows][d] K[keys][d]^T. `ld_q` and `ld_k` are the distances between rows
  // of Q and of K.
  MatMulShape score_product(std::int64_t ld_q, std::int64_t ld_k) const {
    return batched({tile.rows, tile.keys, d_, false, true, ld_q, ld_k, ld_, false}, q_stride_, d_,
                   tile.rows * ld_);
  }
  // Q[rows][d] = scores[rows][keys] K[keys][d].
  MatMulShape row_product(std::int64_t ld_k, std::int64_t ld_q) const {
    return batched({tile.rows, d_, tile.keys, false, false, ld_, ld_k, ld_q, false},
                   tile.rows * ld_, d_, q_stride_);
  }
  // K[keys][d] (+)= scores[rows][keys]^T Q[rows][d].
  MatMulShape key_product(std::int64_t ld_q, std::int64_t ld_k, bool accumulate) const {
    return batched({tile.keys, d_, tile.rows, true, false, ld_, ld_q, ld_k, accumulate},
                   tile.rows * ld_, q_stride_, d_);
  }

  Tile tile;

 private:
  MatMulShape batched(MatMulShape s, std::int64_t a, std::int64_t b, std::int64_t c) const {
    s.batch = tile.heads, s.stride_a = a, s.stride_b = b, s.stride_c = c;
    return s;
  }
  std::int64_t d_, q_stride_, ld_;
};

// Turns scores into probabilities, masks the keys that a row may not see, and keeps the
// log-sum-exp. fp32 probabilities may overwrite the scores.
template<class T, class S>
void softmax(const Context& ctx, const Tile& t, const S& shape, float* scores, T* probabilities,
             float* logsumexp) {
  kernel::for_each(
      ctx, "shardmark::attention_softmax", t.heads * t.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t head = i / t.rows, row = t.first + i % t.rows;
        const std::int64_t from = t.seen_from(row), seen = t.seen_to(row) - from;
        const std::int64_t keys = t.keys - from;
        float* s = scores + i * t.ld + from;
        T* p = probabilities + i * t.ld + from;
        float scale = t.scale;
        if constexpr (S::shapes) {
          const float slope = shape.distance_slope(head);
          kernel::simd_loop(seen, [&](std::int64_t j) {
            s[j] = shape(s[j] * scale, scale, slope * static_cast<float>(j + 1 - seen)).value;
          });
          scale = 1;
        }
        const float most = scale * kernel::lane_max(seen, [&](std::int64_t j) { return s[j]; });
        const float sink = t.sink(head), top = most > sink ? most : sink;
        kernel::simd_loop(seen, [&](std::int64_t j) { s[j] = exp_f32(s[j] * scale - top); });
        auto sum = kernel::lane_sum<float>(seen, [&](std::int64_t j) { return s[j]; });
        if (t.sinks != nullptr) sum += exp_f32(sink - top);
        const float inverse = 1.0f / sum;
        kernel::simd_loop(seen, [&](std::int64_t j) { round_to(p[j], s[j] * inverse); });
        kernel::simd_loop(keys - seen, [&](std::int64_t j) { p[seen + j] = T{}; });
        kernel::simd_loop(from, [&](std::int64_t j) { p[j - from] = T{}; });
        logsumexp[head * t.stats_ld + row] = top + std::log(sum);
      });
}

// Computes the probabilities P again from the scores, and from dscores (dP) the gradient of the
// unscaled scores: scale * P * (dP - delta).
template<class T, class S>
void softmax_backward(const Context& ctx, const Tile& t, const S& shape, const float* logsumexp,
                      const float* delta, const float* scores, const float* dscores,
                      T* probabilities, T* dproduct) {
  kernel::for_each(
      ctx, "shardmark::attention_softmax_backward", t.heads * t.rows,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t head = i / t.rows, row = t.first + i % t.rows;
        const std::int64_t from = t.seen_from(row), seen = t.seen_to(row) - from;
        const std::int64_t keys = t.keys - from;
        const float *s = scores + i * t.ld + from, *ds = dscores + i * t.ld + from;
        T *p = probabilities + i * t.ld + from, *dp = dproduct + i * t.ld + from;
        const float scale = t.scale;
        const float lse = logsumexp[head * t.stats_ld + row], d = delta[head * t.stats_ld + row];
        [[maybe_unused]] const float slope = shape.distance_slope(head);
        kernel::simd_loop(seen, [&](std::int64_t j) {
          ScoreValue score{s[j] * scale, scale};
          if constexpr (S::shapes)
            score = shape(score.value, scale, slope * static_cast<float>(j + 1 - seen));
          const float probability = exp_f32(score.value - lse);
          const float gradient = probability * (ds[j] - d) * score.slope;
          round_to(p[j], probability);
          round_to(dp[j], gradient);
        });
        kernel::simd_loop(from, [&](std::int64_t j) {
          p[j - from] = T{};
          dp[j - from] = T{};
        });
        kernel::simd_loop(keys - seen, [&](std::int64_t j) {
          p[seen + j] = T{};
          dp[seen + j] = T{};
        });
      });
}

}  // namespace shardmark::attention_tiles
