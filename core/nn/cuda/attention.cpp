// SPDX-License-Identifier: Apache-2.0
// Attention in GPU builds. It uses only the deltas of the scratch that the host needs.
#include <core/nn/cuda/attention_kernels.hpp>
#include <core/nn/cuda/stream.hpp>
#include <core/nn/layers/attention.hpp>

namespace shardmark {
namespace {

device::AttentionShape shape_of(const TransformerDims& dims) {
  return {dims.micro_batch, dims.sequence, dims.heads, dims.kv_heads, dims.head_dim()};
}

device::AttentionInput input_of(const TransformerDims& dims, const QueryKeyValue<ConstStored>& in) {
  return {dims.dtype, in.q.data, in.k.data, in.v.data, in.ld_q, in.ld_kv};
}

}  // namespace

void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<ConstStored>& in, Stored out, float* logsumexp,
                       std::byte*, const AttentionForwardScratch&, std::span<std::byte>) {
  device::attention_forward(device::stream_of(ctx.space), shape_of(dims), input_of(dims, in),
                            out.data, logsumexp);
  ctx.progress();
}

void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<ConstStored>& in, ConstStored out,
                        const float* logsumexp, ConstStored dout,
                        const QueryKeyValue<Stored>& gradient, std::byte* scratch,
                        const AttentionBackwardScratch& layout, std::span<std::byte>) {
  device::attention_backward(
      device::stream_of(ctx.space), shape_of(dims), input_of(dims, in), out.data, logsumexp,
      dout.data, {gradient.q.data, gradient.k.data, gradient.v.data, gradient.ld_q, gradient.ld_kv},
      reinterpret_cast<float*>(scratch + layout.delta));
  ctx.progress();
}

}  // namespace shardmark
