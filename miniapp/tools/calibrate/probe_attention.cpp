// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/layers/attention.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/nn/products/matmul.hpp>
#include <miniapp/tools/calibrate/probe.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t least_rows = 8192;  // fewer would not occupy a GPU
constexpr int timed_turns = 7, calls_at_once = 4;

// The heads of a model with one billion parameters.
TransformerDims common_dims() {
  TransformerDims d;
  d.layers = 1;
  d.hidden = 2048;
  d.heads = d.kv_heads = 32;
  d.sequence = 2048;
  d.dtype = Dtype::bf16;
  return d;
}

TransformerDims dims_of(const Deck* deck) {
  TransformerDims d = common_dims();
  if (deck != nullptr && traits(deck->model.family).has_arithmetic)
    d = transformer_dims(deck->model, 1, deck->zero.precision.computes_in());
  d.micro_batch = std::max<std::int64_t>(1, least_rows / d.sequence);
  return d;
}

// The work of the two products of forward, as plans count it. Backward has five products of that
// size.
double forward_flops(const TransformerDims& d) {
  double scores = 0;
  for_each_attention_tile(d, [&](std::int64_t queries, std::int64_t keys) {
    scores += static_cast<double>(queries) * static_cast<double>(keys);
  });
  constexpr double products = 2, flops_per_term = 2;
  return products * flops_per_term * scores * static_cast<double>(d.micro_batch * d.q_dim());
}

/// A tensor of random values in device memory.
class Tensor {
 public:
  Tensor(const Context& ctx, Dtype dtype, std::int64_t elems)
      : buffer_(Tier::device, elems * dtype_bytes(dtype), "shardmark::device::staging::calibrate"),
        dtype_(dtype) {
    init_param(ctx, stored(), elems, 0, 1, Init::uniform, 0.5, 1);
  }
  Stored stored() const { return {dtype_, buffer_.data<std::byte>()}; }
  float* floats() const { return buffer_.data<float>(); }
  std::byte* data() const { return buffer_.data<std::byte>(); }

 private:
  Buffer buffer_;
  Dtype dtype_;
};

// The median of the seconds of one call.
template<class Work>
double seconds_of(const Context& ctx, const Work& work) {
  std::array<double, timed_turns> times{};
  work();  // loads the kernels
  for (double& seconds : times) {
    fence(ctx.space, "shardmark::calibrate");
    const std::int64_t start_ns = monotonic_ns();
    for (int i = 0; i < calls_at_once; ++i) work();
    fence(ctx.space, "shardmark::calibrate");
    seconds = static_cast<double>(monotonic_ns() - start_ns) * 1e-9 / calls_at_once;
  }
  std::nth_element(times.begin(), times.begin() + timed_turns / 2, times.end());
  return times[timed_turns / 2];
}

AttentionRates rates_of(const TransformerDims& d) {
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const std::int64_t wide = d.rows() * d.q_dim(), narrow = d.rows() * d.kv_dim();
  const Tensor q(ctx, d.dtype, wide), k(ctx, d.dtype, narrow), v(ctx, d.dtype, narrow),
      out(ctx, d.dtype, wide), dout(ctx, d.dtype, wide), dq(ctx, d.dtype, wide),
      dk(ctx, d.dtype, narrow), dv(ctx, d.dtype, narrow);
  const Tensor logsumexp(ctx, Dtype::fp32, d.rows() * d.heads),
      delta(ctx, Dtype::fp32, d.rows() * d.heads);
  const QueryKeyValue<ConstStored> in{q.stored(), k.stored(), v.stored(), d.q_dim(), d.kv_dim()};
  const double forward_s = seconds_of(ctx, [&] {
    attention_forward(ctx, d, in, out.stored(), logsumexp.floats(), nullptr, {}, {});
  });
  const double backward_s = seconds_of(ctx, [&] {
    attention_backward(ctx, d, in, out.stored(), logsumexp.floats(), dout.stored(),
                       {dq.stored(), dk.stored(), dv.stored(), d.q_dim(), d.kv_dim()}, delta.data(),
                       {}, {});
  });
  return {d.dtype, forward_flops(d) / forward_s, 2.5 * forward_flops(d) / backward_s};
}

}  // namespace

AttentionRates probe_attention(const Probe& probe, const Deck* deck) {
  if (device_is_host) return {};
  AttentionRates rates;
  probe.progress("attention");
  probe.let_work([&] { rates = rates_of(dims_of(deck)); });
  return rates;
}

}  // namespace shardmark
