// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels for a problem and launches them.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include <core/error.hpp>
#include <core/nn/gpu/attention_plain.cuh>
#include <core/numeric/half.hpp>

#if defined(SHARDMARK_TENSOR_CORES)
#include <core/nn/gpu/attention_tensor.cuh>
#endif

namespace shardmark::device {
#if !defined(SHARDMARK_TENSOR_CORES)
namespace tensor {  // declared for calls that are never made
template<int Width, class... Arguments>
void forward(Arguments...);
template<int Width, class... Arguments>
void backward(Arguments...);
}  // namespace tensor
#endif
namespace {

// One warp sums out * dout over a head. The backward pass of softmax subtracts this sum.
constexpr int delta_threads = 256, warps = delta_threads / 32;
template<class T>
__global__ void delta_kernel(Problem s, const T* out, const T* dout, float* delta) {
  const std::int64_t item = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  const std::int64_t row = item / s.heads, head = item % s.heads;
  if (row >= std::int64_t{s.micro_batch} * s.sequence) return;
  const std::int64_t at = row * s.ld_out + head * s.d;
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < s.d; c += 32)
    sum += widen(out[at + c]) * widen(dout[at + c]);
  for (int other = 16; other > 0; other /= 2) sum += from_lane_xor(sum, other);
  if (threadIdx.x % 32 == 0)
    delta[s.stats(static_cast<int>(row / s.sequence), static_cast<int>(head)) + row % s.sequence] =
        sum;
}

// The gradient of a head's sink, as core/nn/layers/attention.cpp has it for a host: one block sums
// over all rows of the head, always in the same order.
constexpr int sink_threads = 256;
__global__ void sink_kernel(int samples, int heads, int sequence, const float* sinks,
                            const float* logsumexp, const float* delta, float* dsinks) {
  double* const sums = shared_memory<double>();
  const int head = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int sample = 0; sample < samples; ++sample) {
    const std::int64_t first = (std::int64_t{sample} * heads + head) * sequence;
    for (int row = thread; row < sequence; row += sink_threads)
      sum -= static_cast<double>(expf(sinks[head] - logsumexp[first + row]) * delta[first + row]);
  }
  sums[thread] = sum;
  for (int half = sink_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread == 0) dsinks[head] = static_cast<float>(sums[0]);
}

bool aligned_rows(const void* x, std::int64_t ld) {
  return reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && ld % 8 == 0;
}

Problem problem_of(const AttentionShape& a, const AttentionInput& in, const void* out) {
  if (a.head_dim > max_head_dim)
    throw PlanError("attention on a GPU: head_dim = " + std::to_string(a.head_dim) +
                    ": must be at most " + std::to_string(max_head_dim) + ": use more heads");
  const std::int64_t ld_out = a.heads * a.head_dim;
  return {
      static_cast<int>(a.micro_batch),
      static_cast<int>(a.sequence),
      static_cast<int>(a.heads),
      static_cast<int>(a.kv_heads),
      static_cast<int>(a.head_dim),
      in.ld_q,
      in.ld_kv,
      ld_out,
      static_cast<float>(a.scale > 0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(a.head_dim))),
      static_cast<int>(a.window > 0 ? std::min(a.window, a.sequence) : a.sequence),
      static_cast<float>(a.softcap),
      static_cast<float>(a.alibi),
      nullptr,
      a.head_dim % 8 == 0 && aligned_rows(in.q, in.ld_q) && aligned_rows(in.k, in.ld_kv) &&
          aligned_rows(in.v, in.ld_kv) && aligned_rows(out, ld_out)};
}

template<class T>
Inputs<T> inputs_of(const AttentionInput& in) {
  return {static_cast<const T*>(in.q), static_cast<const T*>(in.k), static_cast<const T*>(in.v)};
}

// Calls `tensor` with the width of the heads, or `plain` with the tile size. Tensor cores multiply
// 16-bit values only, and their kernels read scores as they are but for the scale.
template<class T, class Plain, class Tensor>
void choose(const Problem& s, const Plain& plain, const Tensor& tensor) {
  using std::integral_constant;
  const int d = s.d;
  if constexpr (has_tensor_cores && !std::is_same_v<T, float>)
    if (s.softcap == 0 && s.alibi == 0) {
      if (d <= 64) return tensor(integral_constant<int, 64>{});
      if (d <= 128) return tensor(integral_constant<int, 128>{});
    }
  // Six tiles of rows and two of scores must fit into the shared memory of a block.
  constexpr int tile = shared_bytes_of_block > (100 << 10) ? 32 : 16;
  if (d <= 128) return plain(integral_constant<int, tile>{});
  plain(integral_constant<int, tile / 2>{});
}

}  // namespace

void attention_forward(device::Stream stream, const AttentionShape& a, const AttentionInput& in,
                       void* out, float* logsumexp, const float* sinks) {
  Problem s = problem_of(a, in, out);
  s.sinks = sinks;
  with_storage(in.dtype, [&](auto type) {
    using T = decltype(type);
    choose<T>(
        s,
        [&](auto tile) {
          plain::forward<tile()>(stream, s, inputs_of<T>(in), static_cast<T*>(out), logsumexp);
        },
        [&](auto width) {
          tensor::forward<width()>(stream, s, inputs_of<T>(in), static_cast<T*>(out), logsumexp);
        });
  });
}

void attention_backward(device::Stream stream, const AttentionShape& a, const AttentionInput& in,
                        const void* out, const float* logsumexp, const void* dout,
                        const AttentionGradient& gradient, float* delta) {
  Problem s = problem_of(a, in, dout);
  s.aligned = s.aligned && aligned_rows(gradient.q, gradient.ld_q) &&
              aligned_rows(gradient.k, gradient.ld_kv) && aligned_rows(gradient.v, gradient.ld_kv);
  with_storage(in.dtype, [&](auto type) {
    using T = decltype(type);
    const Outcome<T> o{static_cast<const T*>(out), static_cast<const T*>(dout), logsumexp, delta};
    const Gradients<T> g{static_cast<T*>(gradient.q), static_cast<T*>(gradient.k),
                         static_cast<T*>(gradient.v), gradient.ld_q, gradient.ld_kv};
    const std::int64_t items = a.micro_batch * a.sequence * a.heads;
    launch(stream, delta_kernel<T>, dim3(static_cast<unsigned>((items + warps - 1) / warps)),
           delta_threads, 0, s, o.out, o.dout, delta);
    choose<T>(
        s, [&](auto tile) { plain::backward<tile()>(stream, s, inputs_of<T>(in), o, g); },
        [&](auto width) { tensor::backward<width()>(stream, s, inputs_of<T>(in), o, g); });
  });
}

void sink_gradients(device::Stream stream, const AttentionShape& a, const float* sinks,
                    const float* logsumexp, const float* delta, float* dsinks) {
  launch(stream, sink_kernel, dim3(static_cast<unsigned>(a.heads)), sink_threads,
         sink_threads * sizeof(double), static_cast<int>(a.micro_batch), static_cast<int>(a.heads),
         static_cast<int>(a.sequence), sinks, logsumexp, delta, dsinks);
}

}  // namespace shardmark::device
