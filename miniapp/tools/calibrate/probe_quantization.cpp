// SPDX-License-Identifier: Apache-2.0
// The kernels of ZeRO++, which quantize what a rank sends and restore what it receives.
#include <core/nn/kernels/quantize.hpp>
#include <core/nn/kernels/quantize_int4.hpp>
#include <core/plan/deck/quantized.hpp>
#include <core/plan/partition/weight_groups.hpp>
#include <miniapp/tools/calibrate/state_timer.hpp>

namespace shardmark {
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
