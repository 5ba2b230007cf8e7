// SPDX-License-Identifier: Apache-2.0
// All arithmetic is fp32, on CUDA cores: right first. Tiles are squares of `Tile` queries by as many
// keys; rows in shared memory are one element longer than a head, so that threads side by side meet
// no bank twice.
#include <cmath>
#include <string>

#include <core/error.hpp>
#include <core/half.hpp>
#include <core/nn/cuda/attention_kernels.hpp>
#include <core/nn/cuda/check.hpp>

namespace shardmark::device {
namespace {

constexpr int threads = 256;
constexpr int large_tile = 32, small_tile = 16;  // the smaller one for heads above 128 elements

// What all kernels are handed.
struct Sizes {
  int sequence, heads, group, d;  // group: query heads that share a head of keys
  std::int64_t ld_q, ld_kv;
  float scale;
};


// rows [first, first + Tile) of a head into shared memory; zeros beyond the sequence.
template<int Tile, class T>
__device__ void load(const Sizes& s, const T* head, std::int64_t ld, int first, float* tile) {
  for (int e = threadIdx.x; e < Tile * s.d; e += threads) {
    const int row = e / s.d, c = e % s.d;
    tile[row * (s.d + 1) + c] = first + row < s.sequence ? widen(head[(first + row) * ld + c]) : 0;
  }
}

template<int Tile>
__device__ void clear(const Sizes& s, float* tile) {
  for (int e = threadIdx.x; e < Tile * (s.d + 1); e += threads) tile[e] = 0;
}

// rows of a tile, times `factor[row]` where that is given, back to global memory.
template<int Tile, class T>
__device__ void store(const Sizes& s, const float* tile, const float* factor, int first, T* head,
                      std::int64_t ld) {
  for (int e = threadIdx.x; e < Tile * s.d; e += threads) {
    const int row = e / s.d, c = e % s.d;
    if (first + row >= s.sequence) continue;
    const float value = tile[row * (s.d + 1) + c];
    round_to(head[(first + row) * ld + c], factor == nullptr ? value : value * factor[row]);
  }
}

__device__ float dot(int d, const float* x, const float* y) {
  float sum = 0;
  for (int c = 0; c < d; ++c) sum += x[c] * y[c];
  return sum;
}

// Whether query row `q` may see key row `k`.
__device__ bool sees(const Sizes& s, int q, int k) {
  return k <= q && k < s.sequence && q < s.sequence;
}

// into[row][c] += sum over j of weight[row][j] * x[j][c]; transposed: weight[j][row].
template<int Tile>
__device__ void add_product(const Sizes& s, const float* weight, bool transposed, const float* x,
                            float* into) {
  for (int e = threadIdx.x; e < Tile * s.d; e += threads) {
    const int row = e / s.d, c = e % s.d;
    float sum = 0;
    for (int j = 0; j < Tile; ++j)
      sum += weight[transposed ? j * (Tile + 1) + row : row * (Tile + 1) + j] *
             x[j * (s.d + 1) + c];
    into[row * (s.d + 1) + c] += sum;
  }
}

template<int Tile, class T>
__global__ void forward_kernel(Sizes s, const T* q, const T* k, const T* v, T* out,
                               std::int64_t ld_out, float* logsumexp) {
  extern __shared__ float shared[];
  const int matrix = Tile * (s.d + 1);
  float *qs = shared, *ks = qs + matrix, *vs = ks + matrix, *sum = vs + matrix;
  float *p = sum + matrix, *top = p + Tile * (Tile + 1), *total = top + Tile, *shrink = total + Tile;
  const int first = blockIdx.x * Tile, head = blockIdx.y;
  const std::int64_t sample = blockIdx.z, row0 = sample * s.sequence;
  const T* keys = k + row0 * s.ld_kv + head / s.group * s.d;
  const T* values = v + row0 * s.ld_kv + head / s.group * s.d;
  load<Tile>(s, q + row0 * s.ld_q + head * s.d, s.ld_q, first, qs);
  clear<Tile>(s, sum);
  if (threadIdx.x < Tile) top[threadIdx.x] = -INFINITY, total[threadIdx.x] = 0;
  for (int key = 0; key < first + Tile && key < s.sequence; key += Tile) {
    __syncthreads();
    load<Tile>(s, keys, s.ld_kv, key, ks);
    load<Tile>(s, values, s.ld_kv, key, vs);
    __syncthreads();
    for (int e = threadIdx.x; e < Tile * Tile; e += threads) {
      const int i = e / Tile, j = e % Tile;
      p[i * (Tile + 1) + j] = sees(s, first + i, key + j)
                                  ? s.scale * dot(s.d, qs + i * (s.d + 1), ks + j * (s.d + 1))
                                  : -INFINITY;
    }
    __syncthreads();
    if (threadIdx.x < Tile) {
      const int i = threadIdx.x;
      float* row = p + i * (Tile + 1);
      float highest = top[i];
      for (int j = 0; j < Tile; ++j) highest = fmaxf(highest, row[j]);
      // A row beyond the sequence sees nothing; nor is it stored.
      const float base = highest == -INFINITY ? 0 : highest;
      float added = 0;
      for (int j = 0; j < Tile; ++j) {
        row[j] = expf(row[j] - base);
        added += row[j];
      }
      shrink[i] = expf(top[i] - base);
      total[i] = total[i] * shrink[i] + added;
      top[i] = highest;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < Tile * s.d; e += threads)
      sum[e / s.d * (s.d + 1) + e % s.d] *= shrink[e / s.d];
    __syncthreads();
    add_product<Tile>(s, p, false, vs, sum);
  }
  __syncthreads();
  if (threadIdx.x < Tile) {
    const int i = threadIdx.x;
    if (first + i < s.sequence)
      logsumexp[(sample * s.heads + head) * s.sequence + first + i] = top[i] + logf(total[i]);
    shrink[i] = 1.0f / total[i];
  }
  __syncthreads();
  store<Tile>(s, sum, shrink, first, out + row0 * ld_out + head * s.d, ld_out);
}

// delta = sum over a head of out * dout: what softmax's backward subtracts.
template<class T>
__global__ void delta_kernel(Sizes s, std::int64_t rows, const T* out, const T* dout,
                             std::int64_t ld_out, float* delta) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= rows * s.heads) return;
  const std::int64_t row = i / s.heads, head = i % s.heads;
  const T *x = out + row * ld_out + head * s.d, *dx = dout + row * ld_out + head * s.d;
  float sum = 0;
  for (int c = 0; c < s.d; ++c) sum += widen(x[c]) * widen(dx[c]);
  delta[(row / s.sequence * s.heads + head) * s.sequence + row % s.sequence] = sum;
}

// Of a tile of queries and one of keys: the probabilities P again, and the gradient of the unscaled
// scores, scale * P * (dP - delta).
template<int Tile>
__device__ void tile_gradients(const Sizes& s, int query, int key, const float* qs, const float* ks,
                               const float* vs, const float* dos, const float* logsumexp,
                               const float* delta, float* p, float* ds) {
  for (int e = threadIdx.x; e < Tile * Tile; e += threads) {
    const int i = e / Tile, j = e % Tile, at = i * (Tile + 1) + j;
    p[at] = ds[at] = 0;
    if (!sees(s, query + i, key + j)) continue;
    const float score = s.scale * dot(s.d, qs + i * (s.d + 1), ks + j * (s.d + 1));
    p[at] = expf(score - logsumexp[query + i]);
    ds[at] = s.scale * p[at] *
             (dot(s.d, dos + i * (s.d + 1), vs + j * (s.d + 1)) - delta[query + i]);
  }
}

template<int Tile, class T>
__global__ void query_gradient_kernel(Sizes s, const T* q, const T* k, const T* v, const T* dout,
                                      std::int64_t ld_out, const float* logsumexp,
                                      const float* delta, T* dq, std::int64_t ld_dq) {
  extern __shared__ float shared[];
  const int matrix = Tile * (s.d + 1);
  float *qs = shared, *ks = qs + matrix, *vs = ks + matrix, *dos = vs + matrix, *sum = dos + matrix;
  float *p = sum + matrix, *ds = p + Tile * (Tile + 1);
  const int first = blockIdx.x * Tile, head = blockIdx.y;
  const std::int64_t sample = blockIdx.z, row0 = sample * s.sequence;
  const std::int64_t stats = (sample * s.heads + head) * s.sequence;
  load<Tile>(s, q + row0 * s.ld_q + head * s.d, s.ld_q, first, qs);
  load<Tile>(s, dout + row0 * ld_out + head * s.d, ld_out, first, dos);
  clear<Tile>(s, sum);
  for (int key = 0; key < first + Tile && key < s.sequence; key += Tile) {
    __syncthreads();
    load<Tile>(s, k + row0 * s.ld_kv + head / s.group * s.d, s.ld_kv, key, ks);
    load<Tile>(s, v + row0 * s.ld_kv + head / s.group * s.d, s.ld_kv, key, vs);
    __syncthreads();
    tile_gradients<Tile>(s, first, key, qs, ks, vs, dos, logsumexp + stats, delta + stats, p, ds);
    __syncthreads();
    add_product<Tile>(s, ds, false, ks, sum);
  }
  __syncthreads();
  store<Tile>(s, sum, nullptr, first, dq + row0 * ld_dq + head * s.d, ld_dq);
}

// A group's query heads one after another, so that their parts are added in one order.
template<int Tile, class T>
__global__ void key_gradient_kernel(Sizes s, const T* q, const T* k, const T* v, const T* dout,
                                    std::int64_t ld_out, const float* logsumexp, const float* delta,
                                    T* dk, T* dv, std::int64_t ld_dkv) {
  extern __shared__ float shared[];
  const int matrix = Tile * (s.d + 1);
  float *qs = shared, *ks = qs + matrix, *vs = ks + matrix, *dos = vs + matrix;
  float *dks = dos + matrix, *dvs = dks + matrix, *p = dvs + matrix, *ds = p + Tile * (Tile + 1);
  const int first = blockIdx.x * Tile, kv_head = blockIdx.y;
  const std::int64_t sample = blockIdx.z, row0 = sample * s.sequence;
  load<Tile>(s, k + row0 * s.ld_kv + kv_head * s.d, s.ld_kv, first, ks);
  load<Tile>(s, v + row0 * s.ld_kv + kv_head * s.d, s.ld_kv, first, vs);
  clear<Tile>(s, dks);
  clear<Tile>(s, dvs);
  for (int head = kv_head * s.group; head < (kv_head + 1) * s.group; ++head) {
    const std::int64_t stats = (sample * s.heads + head) * s.sequence;
    for (int query = first; query < s.sequence; query += Tile) {
      __syncthreads();
      load<Tile>(s, q + row0 * s.ld_q + head * s.d, s.ld_q, query, qs);
      load<Tile>(s, dout + row0 * ld_out + head * s.d, ld_out, query, dos);
      __syncthreads();
      tile_gradients<Tile>(s, query, first, qs, ks, vs, dos, logsumexp + stats, delta + stats, p,
                           ds);
      __syncthreads();
      add_product<Tile>(s, ds, true, qs, dks);
      add_product<Tile>(s, p, true, dos, dvs);
    }
  }
  __syncthreads();
  store<Tile>(s, dks, nullptr, first, dk + row0 * ld_dkv + kv_head * s.d, ld_dkv);
  store<Tile>(s, dvs, nullptr, first, dv + row0 * ld_dkv + kv_head * s.d, ld_dkv);
}

Sizes sizes_of(const AttentionShape& a, const AttentionInput& in) {
  if (a.head_dim > most_head_dim)
    throw PlanError("attention on a GPU: head_dim = " + std::to_string(a.head_dim) +
                    ": must be at most " + std::to_string(most_head_dim) + ": use more heads");
  return {static_cast<int>(a.sequence),
          static_cast<int>(a.heads),
          static_cast<int>(a.heads / a.kv_heads),
          static_cast<int>(a.head_dim),
          in.ld_q,
          in.ld_kv,
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.head_dim)))};
}

// Shared memory of `matrices` tiles of rows, `squares` tiles of scores and three values a row.
template<int Tile>
std::size_t shared_bytes(const Sizes& s, int matrices, int squares) {
  return sizeof(float) * static_cast<std::size_t>(matrices * Tile * (s.d + 1) +
                                                  squares * Tile * (Tile + 1) + 3 * Tile);
}

// Launches `kernel` with one block a tile of rows, head and sample.
template<int Tile, class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), const AttentionShape& a,
            std::int64_t heads, std::size_t bytes, Arguments... arguments) {
  // More than every device has without asking.
  SHARDMARK_DEVICE(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(bytes)));
  const dim3 grid(static_cast<unsigned>((a.sequence + Tile - 1) / Tile),
                  static_cast<unsigned>(heads), static_cast<unsigned>(a.micro_batch));
  kernel<<<grid, threads, bytes, stream>>>(static_cast<Parameters>(arguments)...);
  SHARDMARK_DEVICE(cudaGetLastError());
}

template<int Tile, class T>
void forward_typed(cudaStream_t stream, const AttentionShape& a, const AttentionInput& in,
                   void* out, float* logsumexp) {
  const Sizes s = sizes_of(a, in);
  launch<Tile>(stream, forward_kernel<Tile, T>, a, a.heads, shared_bytes<Tile>(s, 4, 1), s,
               static_cast<const T*>(in.q), static_cast<const T*>(in.k),
               static_cast<const T*>(in.v), static_cast<T*>(out), a.heads * a.head_dim, logsumexp);
}

template<int Tile, class T>
void backward_typed(cudaStream_t stream, const AttentionShape& a, const AttentionInput& in,
                    const void* out, const float* logsumexp, const void* dout,
                    const AttentionGradient& g, float* delta) {
  const Sizes s = sizes_of(a, in);
  const auto *q = static_cast<const T*>(in.q), *k = static_cast<const T*>(in.k),
             *v = static_cast<const T*>(in.v), *dy = static_cast<const T*>(dout);
  const std::int64_t ld_out = a.heads * a.head_dim, rows = a.micro_batch * a.sequence;
  const auto blocks = static_cast<unsigned>((rows * a.heads + threads - 1) / threads);
  delta_kernel<<<blocks, threads, 0, stream>>>(s, rows, static_cast<const T*>(out), dy, ld_out,
                                               delta);
  SHARDMARK_DEVICE(cudaGetLastError());
  launch<Tile>(stream, query_gradient_kernel<Tile, T>, a, a.heads, shared_bytes<Tile>(s, 5, 2), s,
               q, k, v, dy, ld_out, logsumexp, delta, static_cast<T*>(g.q), g.ld_q);
  launch<Tile>(stream, key_gradient_kernel<Tile, T>, a, a.kv_heads, shared_bytes<Tile>(s, 6, 2), s,
               q, k, v, dy, ld_out, logsumexp, delta, static_cast<T*>(g.k), static_cast<T*>(g.v),
               g.ld_kv);
}

}  // namespace

void attention_forward(cudaStream_t stream, const AttentionShape& a, const AttentionInput& in,
                       void* out, float* logsumexp) {
  with_storage(in.dtype, [&](auto type) {
    using T = decltype(type);
    if (a.head_dim <= 128)
      forward_typed<large_tile, T>(stream, a, in, out, logsumexp);
    else
      forward_typed<small_tile, T>(stream, a, in, out, logsumexp);
  });
}

void attention_backward(cudaStream_t stream, const AttentionShape& a, const AttentionInput& in,
                        const void* out, const float* logsumexp, const void* dout,
                        const AttentionGradient& gradient, float* delta) {
  with_storage(in.dtype, [&](auto type) {
    using T = decltype(type);
    if (a.head_dim <= 128)
      backward_typed<large_tile, T>(stream, a, in, out, logsumexp, dout, gradient, delta);
    else
      backward_typed<small_tile, T>(stream, a, in, out, logsumexp, dout, gradient, delta);
  });
}

}  // namespace shardmark::device
