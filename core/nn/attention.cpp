// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/nn/attention.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/math.hpp>
#include <core/nn/matmul.hpp>

namespace shardmark {
namespace {

// One tile: query rows [first, first + rows) of a sample, for `heads` heads, against keys [0,
// keys).
struct Tile {
  std::int64_t first, rows, keys, heads;
  std::int64_t ld;  // distance of score rows
  float scale;      // 1 / sqrt(head_dim)
};

// Where the tile's operands are, and how a product of a tile looks.
class TileView {
 public:
  TileView(const Gpt2Dims& dims, const AttentionTile& size, std::int64_t first)
      : d_(dims.head_dim()), ld_(size.score_ld) {
    tile.first = first;
    tile.rows = std::min(size.query_rows, dims.sequence - first);
    tile.keys = first + tile.rows;
    tile.heads = size.heads;
    tile.ld = ld_;
    tile.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d_)));
  }

  // scores[rows][keys] = X[rows][d] Y[keys][d]^T; strides by head. ld: of X's and Y's rows.
  MatMulShape score_product(std::int64_t ld_x, std::int64_t ld_y) const {
    return batched({tile.rows, tile.keys, d_, false, true, ld_x, ld_y, ld_, false}, d_, d_,
                   tile.rows * ld_);
  }
  // X[rows][d] = scores[rows][keys] Y[keys][d].
  MatMulShape row_product(std::int64_t ld_y, std::int64_t ld_x) const {
    return batched({tile.rows, d_, tile.keys, false, false, ld_, ld_y, ld_x, false},
                   tile.rows * ld_, d_, d_);
  }
  // X[keys][d] (+)= scores[rows][keys]^T Y[rows][d]. Tiles run from the last to the first, so the
  // first of them writes every key and the others add.
  MatMulShape key_product(std::int64_t ld_y, std::int64_t ld_x, bool accumulate) const {
    return batched({tile.keys, d_, tile.rows, true, false, ld_, ld_y, ld_x, accumulate},
                   tile.rows * ld_, d_, d_);
  }

  Tile tile;

 private:
  MatMulShape batched(MatMulShape s, std::int64_t a, std::int64_t b, std::int64_t c) const {
    s.batch = tile.heads, s.stride_a = a, s.stride_b = b, s.stride_c = c;
    return s;
  }
  std::int64_t d_, ld_;
};

// Turns scores into probabilities in place, masks what a row may not see, keeps the log-sum-exp.
void softmax(const Context& ctx, const Tile& t, std::int64_t sequence, float* scores,
             float* logsumexp) {
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
        logsumexp[head * sequence + row] = top + std::log(sum);
      });
}

// scores becomes P, dscores (dP before) becomes the gradient of the unscaled scores:
// scale * P * (dP - delta).
void softmax_backward(const Context& ctx, const Tile& t, std::int64_t sequence,
                      const float* logsumexp, const float* delta, float* scores, float* dscores) {
  kernel::for_each(
      ctx, "shardmark::attention_softmax_backward", t.heads * t.rows,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t head = i / t.rows, row = t.first + i % t.rows;
        const std::int64_t seen = row + 1, keys = t.keys;
        float* s = scores + i * t.ld;
        float* ds = dscores + i * t.ld;
        const float scale = t.scale;
        const float lse = logsumexp[head * sequence + row], d = delta[head * sequence + row];
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
void make_delta(const Context& ctx, const Gpt2Dims& dims, const float* out, const float* dout,
                float* delta) {
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

// Calls `f(view, sample, first head)` for every tile of every sample.
template<class F>
void for_each_tile(const Gpt2Dims& dims, bool last_first, F f) {
  const AttentionTile size = attention_tile(dims);
  const std::int64_t tiles = (dims.sequence + size.query_rows - 1) / size.query_rows;
  for (std::int64_t sample = 0; sample < dims.micro_batch; ++sample)
    for (std::int64_t head = 0; head < dims.heads; head += size.heads)
      for (std::int64_t i = 0; i < tiles; ++i) {
        const std::int64_t tile = last_first ? tiles - 1 - i : i;
        f(TileView(dims, size, tile * size.query_rows), sample, head);
      }
}

}  // namespace

void attention_forward(const Context& ctx, const Gpt2Dims& dims, const float* qkv, float* out,
                       float* logsumexp, float* scores, std::span<std::byte> gemm_scratch) {
  const std::int64_t h = dims.hidden, ld = 3 * h, d = dims.head_dim();
  auto product = [&](const MatMulShape& s, const float* a, const float* b, float* c) {
    ctx.matmul(ctx.space, s, a, b, c, nullptr, gemm_scratch);
    ctx.progress();
  };
  for_each_tile(dims, false, [&](const TileView& v, std::int64_t sample, std::int64_t head) {
    const float* q = qkv + sample * dims.sequence * ld + head * d;
    const float *k = q + h, *value = q + 2 * h;
    float* o = out + sample * dims.sequence * h + head * d;
    product(v.score_product(ld, ld), q + v.tile.first * ld, k, scores);
    softmax(ctx, v.tile, dims.sequence, scores,
            logsumexp + (sample * dims.heads + head) * dims.sequence);
    product(v.row_product(ld, h), scores, value, o + v.tile.first * h);
  });
}

void attention_backward(const Context& ctx, const Gpt2Dims& dims, const float* qkv,
                        const float* out, const float* logsumexp, const float* dout, float* dqkv,
                        float* scores, float* dscores, float* delta,
                        std::span<std::byte> gemm_scratch) {
  const std::int64_t h = dims.hidden, ld = 3 * h, d = dims.head_dim();
  auto product = [&](const MatMulShape& s, const float* a, const float* b, float* c) {
    ctx.matmul(ctx.space, s, a, b, c, nullptr, gemm_scratch);
    ctx.progress();
  };
  make_delta(ctx, dims, out, dout, delta);
  for_each_tile(dims, true, [&](const TileView& v, std::int64_t sample, std::int64_t head) {
    const std::int64_t first = v.tile.first, row0 = sample * dims.sequence;
    const std::int64_t stats = (sample * dims.heads + head) * dims.sequence;
    const bool add = v.tile.keys < dims.sequence;  // not the last tile, which ran first
    const float* q = qkv + row0 * ld + head * d;
    const float *k = q + h, *value = q + 2 * h;
    const float* d_out = dout + row0 * h + head * d + first * h;
    float* dq = dqkv + row0 * ld + head * d;
    float *dk = dq + h, *dvalue = dq + 2 * h;
    product(v.score_product(ld, ld), q + first * ld, k, scores);
    product(v.score_product(h, ld), d_out, value, dscores);
    softmax_backward(ctx, v.tile, dims.sequence, logsumexp + stats, delta + stats, scores, dscores);
    product(v.key_product(h, ld, add), scores, d_out, dvalue);
    product(v.row_product(ld, ld), dscores, k, dq + first * ld);
    product(v.key_product(ld, ld, add), dscores, q + first * ld, dk);
  });
}

}  // namespace shardmark
