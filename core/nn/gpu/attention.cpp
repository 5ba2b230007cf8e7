// SPDX-License-Identifier: Apache-2.0
// Attention in GPU builds. It uses only the deltas of the scratch that the host needs.
#include <cmath>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/nn/gpu/attention_kernels.hpp>
#include <core/nn/gpu/stream.hpp>
#include <core/nn/layers/attention.hpp>

namespace shardmark {
namespace {

// Throws PlanError for what the native kernels do not have yet.
void refuse_rules(const TransformerDims& dims) {
  const AttentionRules& rules = dims.rules;
  const double usual = 1.0 / std::sqrt(static_cast<double>(dims.head_dim()));
  const char* what = rules.window > 0    ? "a window below the sequence"
                     : rules.softcap > 0 ? "a softcap of the scores"
                     : rules.alibi > 0   ? "ALiBi"
                     : rules.sinks       ? "sinks"
                     : rules.scale > 0 && std::abs(rules.scale / usual - 1) > 1e-12
                         ? "a scale other than 1 / sqrt(head_dim)"
                         : nullptr;
  if (what != nullptr)
    throw PlanError(
        fmt::format("attention on a GPU: {}: the kernels do not have it yet: run on a "
                    "CPU, or plan without running",
                    what));
}

device::AttentionShape shape_of(const TransformerDims& dims) {
  refuse_rules(dims);
  return {dims.micro_batch, dims.sequence, dims.heads, dims.kv_heads, dims.head_dim()};
}

device::AttentionInput input_of(const TransformerDims& dims, const QueryKeyValue<ConstStored>& in) {
  return {dims.dtype, in.q.data, in.k.data, in.v.data, in.ld_q, in.ld_kv};
}

}  // namespace

void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<ConstStored>& in, Stored out, float* logsumexp,
                       std::byte*, const AttentionForwardScratch&, std::span<std::byte>,
                       const float*) {
  device::attention_forward(device::stream_of(ctx.space), shape_of(dims), input_of(dims, in),
                            out.data, logsumexp);
  ctx.progress();
}

void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<ConstStored>& in, ConstStored out,
                        const float* logsumexp, ConstStored dout,
                        const QueryKeyValue<Stored>& gradient, std::byte* scratch,
                        const AttentionBackwardScratch& layout, std::span<std::byte>,
                        const SinkGradients&) {
  device::attention_backward(
      device::stream_of(ctx.space), shape_of(dims), input_of(dims, in), out.data, logsumexp,
      dout.data, {gradient.q.data, gradient.k.data, gradient.v.data, gradient.ld_q, gradient.ld_kv},
      reinterpret_cast<float*>(scratch + layout.delta));
  ctx.progress();
}

}  // namespace shardmark
