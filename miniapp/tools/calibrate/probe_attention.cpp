// SPDX-License-Identifier: Apache-2.0
// The kernels of attention, and those of ZeRO++, which quantize what a rank sends and restore what
// it receives.
#include <algorithm>
#include <array>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <core/nn/kernels/quantize.hpp>
#include <core/nn/kernels/quantize_int4.hpp>
#include <core/nn/layers/attention.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/plan/deck/quantized.hpp>
#include <core/plan/partition/weight_groups.hpp>
#include <miniapp/tools/calibrate/probe.hpp>
#include <miniapp/tools/calibrate/state_timer.hpp>

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

namespace {

// Times the kernels of weights, in the groups into which DeepSpeed divides that many elements.
void weights(StateTimer& t) {
  const auto groups = [](std::int64_t n) { return n / weight_group_elems(n); };
  t.time("quantize", Dtype::int8, Dtype::fp16, 3, [&](std::int64_t n) {
    quantize(t.context(), n, groups(n), t.take_as<std::int8_t>(n), t.take_as<float>(groups(n)),
             t.take_as<Fp16>(n));
  });
  t.time("dequantize", Dtype::fp16, Dtype::int8, 3, [&](std::int64_t n) {
    dequantize(t.context(), n, groups(n), t.take_as<Fp16>(n), t.take_as<std::int8_t>(n),
               t.take_as<float>(groups(n)));
  });
}

// Times the kernels of gradients as two nodes with two ranks per node launch them. A group is a row
// of a matrix. A kernel has as many elements as the larger of what it reads and writes, as plans
// count them (core/plan/work).
void gradients(StateTimer& t, std::int64_t row) {
  constexpr int nodes = 2, ranks = 2, parts = 2;
  const std::int64_t unit = row * nodes * ranks;
  const auto quantize_whole = [&](std::int64_t n) {
    quantize_int4(t.context(), n, n / row, nodes, ranks, t.take_as<std::int8_t>(n / 2),
                  t.take_as<float>(n / row), t.take_as<Fp16>(n));
  };
  const auto add_up = [&](std::int64_t n) {
    reduce_int4(t.context(), n, n / row, parts, t.take_as<std::int8_t>(n / 2),
                t.take_as<float>(n / row), t.take_as<std::int8_t>(n),
                t.take_as<float>(parts * n / row));
  };
  const auto restore = [&](std::int64_t n) {
    dequantize_int4(t.context(), n, n / row, t.take_as<Fp16>(n), t.take_as<std::int8_t>(n / 2),
                    t.take_as<float>(n / row));
  };
  t.time("quantize_int4", Dtype::int8, Dtype::fp16, 2.5, quantize_whole, unit);
  t.time("reduce_int4", Dtype::int8, Dtype::int8, 1.5, add_up, unit);
  t.time("dequantize_int4", Dtype::fp16, Dtype::int8, 2.5, restore, unit);
  t.time("sum_parts", Dtype::fp16, Dtype::fp16, 3, [&](std::int64_t n) {
    sum_parts(t.context(), n / parts, parts, t.take_as<Fp16>(n / parts), t.take_as<Fp16>(n));
  });
}

}  // namespace

void probe_quantization(const Probe& probe, const Deck& deck) {
  const bool int8 = sends_int8(deck), int4 = sends_int4(deck);
  if (!int8 && !int4) return;
  probe.progress("kernels of ZeRO++");
  // On a host these kernels take several ns per element, so beyond the caches their size hardly
  // matters, and larger ones would take most of the time.
  constexpr std::int64_t large = std::int64_t{12} << 20, enough = std::int64_t{3} << 20;
  StateTimer timer(probe, probe.quick ? enough : large);
  constexpr std::int64_t unit = 8, without_width = 1024;
  const std::int64_t width = deck.model.hidden > 0 ? deck.model.hidden : without_width;
  const Dtype model = deck.zero.precision.model;
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    if (int8) weights(timer);
    if (int4) gradients(timer, (width + unit - 1) / unit * unit);
    // DeepSpeed's kernels know fp16 only, so other types are converted before and after them.
    time_two_types(timer, Dtype::fp16, model);
    if (model != Dtype::fp16) time_two_types(timer, model, Dtype::fp16);
  }
}

}  // namespace shardmark
