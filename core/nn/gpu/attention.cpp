// SPDX-License-Identifier: Apache-2.0
// Attention in GPU builds. It uses only the deltas of the scratch that the host needs.
#include <core/nn/gpu/attention_kernels.hpp>
#include <core/nn/gpu/stream.hpp>
#include <core/nn/layers/attention.hpp>

namespace shardmark {
namespace {

device::AttentionShape shape_of(const TransformerDims& dims) {
  const AttentionRules& rules = dims.rules;
  return {dims.micro_batch, dims.sequence, dims.heads,    dims.kv_heads, dims.head_dim(),
          rules.window,     rules.scale,   rules.softcap, rules.alibi};
}

device::AttentionInput input_of(const TransformerDims& dims, const QueryKeyValue<ConstStored>& in) {
  return {dims.dtype, in.q.data, in.k.data, in.v.data, in.ld_q, in.ld_kv};
}

}  // namespace

void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<ConstStored>& in, Stored out, float* logsumexp,
                       std::byte*, const AttentionScratch&, std::span<std::byte>,
                       const float* sinks) {
  device::attention_forward(device::stream_of(ctx.space), shape_of(dims), input_of(dims, in),
                            out.data, logsumexp, sinks);
  ctx.progress();
}

void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<ConstStored>& in, ConstStored out,
                        const float* logsumexp, ConstStored dout,
                        const QueryKeyValue<Stored>& gradient, std::byte* scratch,
                        const AttentionScratch& layout, std::span<std::byte>,
                        const SinkGradients& sinks) {
  const device::Stream stream = device::stream_of(ctx.space);
  const device::AttentionShape shape = shape_of(dims);
  auto* delta = reinterpret_cast<float*>(scratch + layout.delta);
  device::attention_backward(
      stream, shape, input_of(dims, in), out.data, logsumexp, dout.data,
      {gradient.q.data, gradient.k.data, gradient.v.data, gradient.ld_q, gradient.ld_kv}, delta);
  if (sinks.sinks != nullptr)
    device::sink_gradients(stream, shape, sinks.sinks, logsumexp, delta, sinks.dsinks);
  ctx.progress();
}

}  // namespace shardmark
