// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/nn/attention.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/math.hpp>
#include <core/nn/matmul.hpp>

namespace shardmark {
namespace {

// One tile: query rows [first, first + rows) of a sample, for `heads` heads that share no keys,
// against keys [0, keys).
struct Tile {
  std::int64_t first, rows, keys, heads;
  std::int64_t ld;        // distance of score rows
  std::int64_t stats_ld;  // distance of two heads' log-sum-exps, and of their deltas
  float scale;            // 1 / sqrt(head_dim)
};

// A tile and how its products look. In a tile's batch, query heads lie `group` heads apart and the
// key heads that they use side by side; a group's query heads come in tiles of their own, so that
// their parts of dk and dv are added one after another, always in the same order.
class TileView {
 public:
  TileView(const TransformerDims& dims, const AttentionTile& size, std::int64_t first)
      : d_(dims.head_dim()), q_stride_(dims.heads / dims.kv_heads * d_), ld_(size.score_ld) {
    tile.first = first;
    tile.rows = std::min(size.query_rows, dims.sequence - first);
    tile.keys = first + tile.rows;
    tile.heads = size.heads;
    tile.ld = ld_;
    tile.stats_ld = dims.heads / dims.kv_heads * dims.sequence;
    tile.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d_)));
  }

  // scores[rows][keys] = Q[rows][d] K[keys][d]^T. ld: distances of Q's and K's rows.
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

// Turns scores into probabilities in place, masks what a row may not see, keeps the log-sum-exp.
void softmax(const Context& ctx, const Tile& t, float* scores, float* logsumexp) {
  kernel::for_each(
      ctx, "shardmark::attention_softmax", t.heads * t.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t head = i / t.rows, row = t.first + i % t.rows;
        const std::int64_t seen = row + 1, keys = t.keys;
        float* s = scores + i * t.ld;
        const float scale = t.scale;
        const float top = scale * kernel::lane_max(seen, [&](std::int64_t j) { return s[j]; });
        kernel::simd_loop(seen, [&](std::int64_t j) { s[j] = exp_f32(s[j] * scale - top); });
        const float sum = kernel::lane_sum<float>(seen, [&](std::int64_t j) { return s[j]; });
        const float inverse = 1.0f / sum;
        kernel::simd_loop(seen, [&](std::int64_t j) { s[j] = s[j] * inverse; });
        kernel::simd_loop(keys - seen, [&](std::int64_t j) { s[seen + j] = 0.0f; });
        logsumexp[head * t.stats_ld + row] = top + std::log(sum);
      });
}

// scores becomes P, dscores (dP before) becomes the gradient of the unscaled scores:
// scale * P * (dP - delta).
void softmax_backward(const Context& ctx, const Tile& t, const float* logsumexp, const float* delta,
                      float* scores, float* dscores) {
  kernel::for_each(
      ctx, "shardmark::attention_softmax_backward", t.heads * t.rows,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t head = i / t.rows, row = t.first + i % t.rows;
        const std::int64_t seen = row + 1, keys = t.keys;
        float* s = scores + i * t.ld;
        float* ds = dscores + i * t.ld;
        const float scale = t.scale;
        const float lse = logsumexp[head * t.stats_ld + row], d = delta[head * t.stats_ld + row];
        kernel::simd_loop(seen, [&](std::int64_t j) {
          const float p = exp_f32(s[j] * scale - lse);
          s[j] = p;
          ds[j] = p * (ds[j] - d) * scale;
        });
        kernel::simd_loop(keys - seen, [&](std::int64_t j) {
          s[seen + j] = 0.0f;
          ds[seen + j] = 0.0f;
        });
      });
}

// delta[sample][head][row] = sum over the head of out * dout: what softmax's backward subtracts.
void make_delta(const Context& ctx, const TransformerDims& dims, const float* out,
                const float* dout, float* delta) {
  const std::int64_t heads = dims.heads, d = dims.head_dim(), sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::attention_delta", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t sample = r / sequence, row = r % sequence;
        for (std::int64_t head = 0; head < heads; ++head) {
          const float* a = out + (r * heads + head) * d;
          const float* b = dout + (r * heads + head) * d;
          delta[(sample * heads + head) * sequence + row] =
              kernel::lane_sum<float>(d, [&](std::int64_t j) { return a[j] * b[j]; });
        }
      });
}

// Where a tile's first heads are: of queries, outputs and statistics, and of keys and values.
struct Place {
  std::int64_t sample, head, kv_head;
};

// Calls `f(view, place)` for every tile of every sample.
template<class F>
void for_each_tile(const TransformerDims& dims, bool last_first, F f) {
  const AttentionTile size = attention_tile(dims);
  const std::int64_t tiles = (dims.sequence + size.query_rows - 1) / size.query_rows;
  const std::int64_t group = dims.heads / dims.kv_heads;
  for (std::int64_t sample = 0; sample < dims.micro_batch; ++sample)
    for (std::int64_t kv = 0; kv < dims.kv_heads; kv += size.heads)
      for (std::int64_t member = 0; member < group; ++member)
        for (std::int64_t i = 0; i < tiles; ++i) {
          const std::int64_t tile = last_first ? tiles - 1 - i : i;
          f(TileView(dims, size, tile * size.query_rows), Place{sample, kv * group + member, kv});
        }
}

}  // namespace

void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<const float>& in, float* out, float* logsumexp,
                       float* scores, std::span<std::byte> gemm_scratch) {
  const std::int64_t h = dims.hidden, d = dims.head_dim();
  auto product = [&](const MatMulShape& s, const float* a, const float* b, float* c) {
    ctx.matmul(ctx.space, s, a, b, c, nullptr, gemm_scratch);
    ctx.progress();
  };
  for_each_tile(dims, false, [&](const TileView& v, const Place& at) {
    const std::int64_t row0 = at.sample * dims.sequence, first = row0 + v.tile.first;
    const float* q = in.q + first * in.ld_q + at.head * d;
    const float* k = in.k + row0 * in.ld_kv + at.kv_head * d;
    const float* value = in.v + row0 * in.ld_kv + at.kv_head * d;
    product(v.score_product(in.ld_q, in.ld_kv), q, k, scores);
    softmax(ctx, v.tile, scores, logsumexp + (at.sample * dims.heads + at.head) * dims.sequence);
    product(v.row_product(in.ld_kv, h), scores, value, out + first * h + at.head * d);
  });
}

// Tiles run from the last to the first: the first one writes a key head's dk and dv whole, every
// later one and the other heads of the group add to them.
void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<const float>& in, const float* out,
                        const float* logsumexp, const float* dout,
                        const QueryKeyValue<float>& gradient, float* scores, float* dscores,
                        float* delta, std::span<std::byte> gemm_scratch) {
  const std::int64_t h = dims.hidden, d = dims.head_dim(), group = dims.heads / dims.kv_heads;
  const std::int64_t ld_q = in.ld_q, ld_kv = in.ld_kv;
  auto product = [&](const MatMulShape& s, const float* a, const float* b, float* c) {
    ctx.matmul(ctx.space, s, a, b, c, nullptr, gemm_scratch);
    ctx.progress();
  };
  make_delta(ctx, dims, out, dout, delta);
  for_each_tile(dims, true, [&](const TileView& v, const Place& at) {
    const std::int64_t row0 = at.sample * dims.sequence, first = row0 + v.tile.first;
    const std::int64_t stats = (at.sample * dims.heads + at.head) * dims.sequence;
    const bool add = v.tile.keys < dims.sequence || at.head > at.kv_head * group;
    const std::int64_t kv = at.kv_head * d;
    const float* q = in.q + first * ld_q + at.head * d;
    const float* k = in.k + row0 * ld_kv + kv;
    const float* value = in.v + row0 * ld_kv + kv;
    const float* d_out = dout + first * h + at.head * d;
    float* dq = gradient.q + first * gradient.ld_q + at.head * d;
    float* dk = gradient.k + row0 * gradient.ld_kv + kv;
    float* dvalue = gradient.v + row0 * gradient.ld_kv + kv;
    product(v.score_product(ld_q, ld_kv), q, k, scores);
    product(v.score_product(h, ld_kv), d_out, value, dscores);
    softmax_backward(ctx, v.tile, logsumexp + stats, delta + stats, scores, dscores);
    product(v.key_product(h, gradient.ld_kv, add), scores, d_out, dvalue);
    product(v.row_product(ld_kv, gradient.ld_q), dscores, k, dq);
    product(v.key_product(ld_q, gradient.ld_kv, add), dscores, q, dk);
  });
}

}  // namespace shardmark
