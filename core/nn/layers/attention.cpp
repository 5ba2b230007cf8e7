// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/attention_tile.hpp>
#include <core/nn/products/matmul.hpp>

namespace shardmark {
namespace {

using namespace attention_tiles;

// delta[sample][head][row] = sum over the head of out * dout. The backward pass of softmax
// subtracts it.
template<class T>
void make_delta(const Context& ctx, const TransformerDims& dims, const T* out, const T* dout,
                float* delta) {
  const std::int64_t heads = dims.heads, d = dims.head_dim(), sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::attention_delta", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t sample = r / sequence, row = r % sequence;
        for (std::int64_t head = 0; head < heads; ++head) {
          const T* a = out + (r * heads + head) * d;
          const T* b = dout + (r * heads + head) * d;
          delta[(sample * heads + head) * sequence + row] =
              kernel::lane_sum<float>(d, [&](std::int64_t j) { return widen(a[j]) * widen(b[j]); });
        }
      });
}

// The probability of a head's sink has no value to multiply, so the gradient of the sink is minus
// the sum over rows of that probability times delta.
void sinks_backward(const Context& ctx, const TransformerDims& dims, const float* logsumexp,
                    const float* delta, const SinkGradients& s) {
  const std::int64_t heads = dims.heads, sequence = dims.sequence, samples = dims.micro_batch;
  kernel::for_each(
      ctx, "shardmark::attention_sinks_backward", heads, KOKKOS_LAMBDA(std::int64_t head) {
        double sum = 0;
        for (std::int64_t sample = 0; sample < samples; ++sample) {
          const std::int64_t first = (sample * heads + head) * sequence;
          for (std::int64_t r = first; r < first + sequence; ++r)
            sum -= static_cast<double>(exp_f32(s.sinks[head] - logsumexp[r]) * delta[r]);
        }
        s.dsinks[head] = static_cast<float>(sum);
      });
}

// Rounds rows x columns of contiguous sums into `to`, whose rows are ld apart.
template<class T>
void store_sums(const Context& ctx, std::int64_t rows, std::int64_t columns, const float* sums,
                T* to, std::int64_t ld) {
  kernel::for_each(
      ctx, "shardmark::attention_store_sums", rows, KOKKOS_LAMBDA(std::int64_t r) {
        const float* from = sums + r * columns;
        T* row = to + r * ld;
        kernel::simd_loop(columns, [&](std::int64_t j) { round_to(row[j], from[j]); });
      });
}

// Zeros in rows x columns of sums, whose rows are ld apart.
void clear_sums(const Context& ctx, std::int64_t rows, std::int64_t columns, float* sums,
                std::int64_t ld) {
  kernel::for_each(
      ctx, "shardmark::attention_clear_sums", rows, KOKKOS_LAMBDA(std::int64_t r) {
        float* row = sums + r * ld;
        kernel::simd_loop(columns, [&](std::int64_t j) { row[j] = 0; });
      });
}

// Calls `f` with what the rules of the layer do to the scores of a tile.
template<class F>
void with_shape(const TransformerDims& dims, std::int64_t first_head, const F& f) {
  const AttentionRules& rules = dims.rules;
  if (rules.softcap == 0 && rules.alibi == 0) return f(PlainScores());
  f(ShapedScores{static_cast<float>(rules.softcap), static_cast<float>(rules.alibi), first_head,
                 dims.heads / dims.kv_heads, dims.heads});
}

// Products of operands of type T.
template<class T>
class Products {
 public:
  Products(const Context& ctx, std::span<std::byte> scratch) : ctx_(ctx), scratch_(scratch) {}
  template<class C>
  void operator()(MatMulShape s, const T* a, const T* b, C* c) const {
    s.type = storage_of<T>;
    s.c_type = storage_of<C>;
    ctx_.matmul(ctx_.space, s, a, b, c, nullptr, scratch_);
    ctx_.progress();
  }

 private:
  const Context& ctx_;
  std::span<std::byte> scratch_;
};

// The first heads of a tile: of queries, outputs and statistics, and of keys and values.
struct TilePosition {
  std::int64_t sample, head, kv_head;
};

// Calls `f(view, position)` for every tile of every sample.
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
          f(TileView(dims, size, tile * size.query_rows),
            TilePosition{sample, kv * group + member, kv});
        }
}

template<class T>
T* part(std::byte* scratch, std::int64_t offset) {
  return reinterpret_cast<T*>(scratch + offset);
}

template<class T>
void forward(const Context& ctx, const TransformerDims& dims, const QueryKeyValue<const T*>& in,
             T* out, float* logsumexp, float* scores, T* probabilities, const Products<T>& product,
             const float* sinks) {
  const std::int64_t h = dims.q_dim(), d = dims.head_dim(), group = dims.heads / dims.kv_heads;
  for_each_tile(dims, false, [&](const TileView& v, const TilePosition& at) {
    const std::int64_t row0 = at.sample * dims.sequence, first = row0 + v.tile.first;
    const T* q = in.q + first * in.ld_q + at.head * d;
    const std::int64_t key = (row0 + v.tile.key0) * in.ld_kv + at.kv_head * d;
    const T *k = in.k + key, *value = in.v + key;
    product(v.score_product(in.ld_q, in.ld_kv), q, k, scores);
    Tile tile = v.tile;
    if (sinks != nullptr) tile.sinks = sinks + at.head, tile.sink_stride = group;
    with_shape(dims, at.head, [&](const auto& shape) {
      softmax(ctx, tile, shape, scores, probabilities,
              logsumexp + (at.sample * dims.heads + at.head) * dims.sequence);
    });
    product(v.row_product(in.ld_kv, h), probabilities, value, out + first * h + at.head * d);
  });
}

// Where the gradients of a tile's keys and values are summed: in the gradient itself if it is fp32,
// otherwise in scratch.
struct Sums {
  float *k, *v;
  std::int64_t ld;
};

// The tiles run from the last to the first. The first tile writes dk and dv of a key head
// completely; every later tile and the other heads of the group add to them.
template<class T>
void backward(const Context& ctx, const TransformerDims& dims, const QueryKeyValue<const T*>& in,
              const T* out, const float* logsumexp, const T* dout,
              const QueryKeyValue<T*>& gradient, std::byte* scratch, const AttentionScratch& layout,
              const Products<T>& product) {
  const std::int64_t h = dims.q_dim(), d = dims.head_dim(), group = dims.heads / dims.kv_heads;
  const std::int64_t ld_q = in.ld_q, ld_kv = in.ld_kv;
  auto *scores = part<float>(scratch, layout.scores),
       *dscores = part<float>(scratch, layout.dscores), *delta = part<float>(scratch, layout.delta);
  T *p = part<T>(scratch, layout.probabilities), *dp = part<T>(scratch, layout.dproduct);
  make_delta(ctx, dims, out, dout, delta);
  for_each_tile(dims, true, [&](const TileView& v, const TilePosition& at) {
    const std::int64_t row0 = at.sample * dims.sequence, first = row0 + v.tile.first;
    const std::int64_t stats = (at.sample * dims.heads + at.head) * dims.sequence;
    const std::int64_t member = at.head - at.kv_head * group;
    const bool begins = v.tile.first + v.tile.rows == dims.sequence && member == 0;
    const bool windowed = dims.rules.window > 0, add = windowed || !begins;
    const std::int64_t kv = at.kv_head * d, columns = v.tile.heads * d, key0 = v.tile.key0;
    const T* q = in.q + first * ld_q + at.head * d;
    const T* k = in.k + (row0 + key0) * ld_kv + kv;
    const T* value = in.v + (row0 + key0) * ld_kv + kv;
    const T* d_out = dout + first * h + at.head * d;
    T* dq = gradient.q + first * gradient.ld_q + at.head * d;
    T* dk = gradient.k + row0 * gradient.ld_kv + kv;
    T* dvalue = gradient.v + row0 * gradient.ld_kv + kv;
    Sums sums{part<float>(scratch, layout.dkeys), part<float>(scratch, layout.dvalues), columns};
    constexpr bool in_place = std::is_same_v<T, float>;
    if constexpr (in_place) sums = {dk, dvalue, gradient.ld_kv};
    // The first tile does not reach all keys of a window, so its sums begin as zeros.
    if (windowed && begins)
      for (float* sum : {sums.v, sums.k}) clear_sums(ctx, dims.sequence, columns, sum, sums.ld);
    product(v.score_product(ld_q, ld_kv), q, k, scores);
    product(v.score_product(h, ld_kv), d_out, value, dscores);
    with_shape(dims, at.head, [&](const auto& shape) {
      softmax_backward(ctx, v.tile, shape, logsumexp + stats, delta + stats, scores, dscores, p,
                       dp);
    });
    product(v.key_product(h, sums.ld, add), p, d_out, sums.v + key0 * sums.ld);
    product(v.row_product(ld_kv, gradient.ld_q), dp, k, dq);
    product(v.key_product(ld_q, sums.ld, add), dp, q, sums.k + key0 * sums.ld);
    if (in_place || v.tile.first > 0 || member + 1 < group) return;
    store_sums(ctx, dims.sequence, columns, sums.v, dvalue, gradient.ld_kv);
    store_sums(ctx, dims.sequence, columns, sums.k, dk, gradient.ld_kv);
  });
}

template<class T>
QueryKeyValue<const T*> typed(const QueryKeyValue<ConstStored>& x) {
  return {x.q.as<T>(), x.k.as<T>(), x.v.as<T>(), x.ld_q, x.ld_kv};
}
template<class T>
QueryKeyValue<T*> typed(const QueryKeyValue<Stored>& x) {
  return {x.q.as<T>(), x.k.as<T>(), x.v.as<T>(), x.ld_q, x.ld_kv};
}

}  // namespace

void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<ConstStored>& in, Stored out, float* logsumexp,
                       std::byte* scratch, const AttentionScratch& layout,
                       std::span<std::byte> gemm_scratch, const float* sinks) {
  with_storage(dims.dtype, [&](auto type) {
    using T = decltype(type);
    forward(ctx, dims, typed<T>(in), out.as<T>(), logsumexp, part<float>(scratch, layout.scores),
            part<T>(scratch, layout.probabilities), Products<T>(ctx, gemm_scratch), sinks);
  });
}

void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<ConstStored>& in, ConstStored out,
                        const float* logsumexp, ConstStored dout,
                        const QueryKeyValue<Stored>& gradient, std::byte* scratch,
                        const AttentionScratch& layout, std::span<std::byte> gemm_scratch,
                        const SinkGradients& sinks) {
  with_storage(dims.dtype, [&](auto type) {
    using T = decltype(type);
    backward(ctx, dims, typed<T>(in), out.as<T>(), logsumexp, dout.as<T>(), typed<T>(gradient),
             scratch, layout, Products<T>(ctx, gemm_scratch));
  });
  if (sinks.sinks != nullptr)
    sinks_backward(ctx, dims, logsumexp, part<float>(scratch, layout.delta), sinks);
}

}  // namespace shardmark
