// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <core/plan/price/gpu_kernels.hpp>
#include <core/plan/price/product_rates.hpp>

namespace shardmark {
namespace {

double stream_rate(const DeviceModel& d) {
  return d.memory_bytes_per_s * d.stream_efficiency;
}

// Tiles of C that libraries cut, from large to small.
struct Tile {
  double rows, columns;
};
constexpr std::array<Tile, 6> tiles{
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}};

// The speed of a multiprocessor with this tile relative to that with the largest: each element that
// it fetches is used for fewer operations. As if a fetch took the time of 25 operations per row and
// column of a tile, which makes the smallest tile a quarter slower.
double speed_of(const Tile& tile) {
  constexpr double fetch = 25;
  const auto speed = [](const Tile& t) {
    const double uses = t.rows * t.columns / (t.rows + t.columns);
    return uses / (uses + fetch);
  };
  return speed(tile) / speed(tiles.front());
}

// Parts of the inner dimension meet in memory in fp32.
double bytes_of_product(const Product& p, double parts) {
  const double meeting = parts > 1 ? 8 * parts * as_double(p.m) * as_double(p.n) : 0;
  return operand_bytes(p) + as_double(p.batch) * meeting;
}

// What FlashAttention-2 gained over the first one (Dao, FlashAttention-2, 2023: about twice).
constexpr double first_of_second = 0.6;
// Bytes that kernels between the products of attention move per score of two bytes, and how many
// kernels there are.
struct ScorePasses {
  double forward, backward, kernels;
};

// Dropout reads and writes scores and a mask of one byte in both directions (2 + 2 + 1). Composed
// of single operations, scaling, mask and softmax are three more kernels (3 * 4; backward the
// softmax reads two arrays, 4 + 4 + 6). One kernel for the three reads only the half of its scores
// that the mask leaves, but writes all of them (1 + 2; backward 2 + 2).
ScorePasses score_passes(AttentionKernel kernel) {
  return kernel == AttentionKernel::fused_softmax ? ScorePasses{8, 9, 2} : ScorePasses{17, 19, 4};
}

bool keeps_scores(const Software& software) {
  return software.attention == AttentionKernel::unfused ||
         software.attention == AttentionKernel::fused_softmax;
}

double fused_attention_s(const DeviceModel& d, const Software& software, const AttentionWork& a) {
  const double products = a.backward ? 5 : 2;
  // One exponential per score, in forward beside two products and in backward beside five.
  const double depth = a.head_dim + d.softmax_depth * 2 / products;
  double rate = peak_of(d, a.dtype) * attention_efficiency_of(d, a.backward);
  if (software.attention != AttentionKernel::fused) rate *= d.portable_attention;
  if (software.attention == AttentionKernel::first_fused) rate *= first_of_second;
  return rate > 0 ? 2 * products * a.scores * depth / rate : 0;
}

double unfused_attention_s(const DeviceModel& d, const Software& software, const AttentionWork& a) {
  Product scores{.m = static_cast<std::int64_t>(a.sequence),
                 .n = static_cast<std::int64_t>(a.sequence),
                 .k = static_cast<std::int64_t>(a.head_dim),
                 .batch = static_cast<std::int64_t>(a.heads),
                 .type = a.dtype,
                 .c_type = a.dtype};
  Product values = scores;
  std::swap(values.n, values.k);
  // Backward has one product that makes scores, and three that read them.
  const double products =
      tiled_product_s(d, scores) + (a.backward ? 3 : 1) * tiled_product_s(d, values);
  const double elems = a.heads * a.sequence * a.sequence;
  const ScorePasses passes = score_passes(software.attention);
  const double bytes =
      elems * (a.backward ? passes.backward : passes.forward) * as_double(dtype_bytes(a.dtype)) / 2;
  return products + (stream_rate(d) > 0 ? bytes / stream_rate(d) : 0) +
         d.launch_s * attention_launches(software, a);
}

// The single operations that PyTorch runs for one of our kernels: the bytes that they move relative
// to ours, counted for 16-bit values by what each operation reads and writes, and how many there
// are.
struct Operations {
  std::string_view begin;
  double bytes = 1, kernels = 1;
};

Operations operations_of(const Software& software, std::string_view kernel) {
  static constexpr Operations entries[] = {
      // A copy of the logits in fp32 (2 + 4), log-softmax (4 + 4), the choice of the target; in
      // backward zeros (4), log-softmax (4 + 4 + 4) and a copy in 16 bits (4 + 2); ours makes three
      // passes.
      {"cross_entropy", 36.0 / 6, 7},
      // To fp32 (2 + 4), square (4 + 4), mean (4), scale (4 + 4), from fp32 (4 + 2), weight (2 +
      // 2).
      {"rms_norm_forward", 36.0 / 4, 6},
      // Backward has as many operations as forward, and each of them reads a gradient as well.
      {"rms_norm", 6, 6},
      // To fp32 (2 + 4), multiply pairs (4 + 4), from fp32 (4 + 2).
      {"rotary", 20.0 / 4, 6},
      // The activation and the product with the other half are two operations.
      {"swiglu", 10.0 / 6, 2},
      // Weight decay, both moments, root, quotient and step are operations of their own: 80 bytes.
      {"adamw_update", 80.0 / 28, 1},
      // The bias, dropout and the sum. (Their bytes count as if one kernel did it: some software
      // fuses them, and some models have neither.)
      {"bias_residual", 1, 3},
      // Each gradient is added to that of earlier micro-batches, and a norm's also to the
      // residual's.
      {"bias_backward", 1, 2},
      {"layer_norm_backward_params", 1, 3},
      {"layer_norm_backward_rows", 1, 2},
      // The batch to the device, positions and mask.
      {"token_embedding_forward", 1, 8}};
  // To fp32 (2 + 4), maximum (4), difference (4 + 4), exponential (4 + 4), sum (4), quotient (4 +
  // 4), targets and their masks; backward the product with the loss's gradient (4 + 4), to 16 bits
  // (4 + 2).
  static constexpr Operations composed_loss{"cross_entropy", 52.0 / 6, 16};
  if (software.composed_loss && kernel.starts_with(composed_loss.begin)) return composed_loss;
  if (software.native_norms && (kernel.starts_with("rms_norm") || kernel.starts_with("adamw")))
    return {};
  for (const Operations& o : entries)
    if (kernel.starts_with(o.begin)) return o;
  return {};
}

// Frameworks add a weight's gradient to that of earlier micro-batches by a kernel of its own.
bool adds_gradient(const Software& software, const Product& p) {
  return software.eager && p.accumulate && p.transpose_a && p.part == ProductPart::linear;
}

}  // namespace

double tiled_product_s(const DeviceModel& d, const Product& p) {
  const double peak = peak_of(d, p.type) * d.product_efficiency / d.multiprocessors;
  // Without a peak, what memory moves is all that is known.
  if (peak <= 0) return stream_rate(d) > 0 ? bytes_of_product(p, 1) / stream_rate(d) : 0;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles)
    for (const double parts : {1, 2, 4, 8}) {
      const double depth = std::ceil(as_double(p.k) / parts);
      if (parts > 1 && depth < 256) break;
      const double count = std::ceil(as_double(p.m) / tile.rows) *
                           std::ceil(as_double(p.n) / tile.columns) * as_double(p.batch) * parts;
      const double waves = std::ceil(count / d.multiprocessors);
      double s = waves * 2 * tile.rows * tile.columns * (depth + d.product_fill_depth) /
                 (peak * speed_of(tile));
      if (stream_rate(d) > 0) s = std::max(s, bytes_of_product(p, parts) / stream_rate(d));
      least = std::min(least, s);
    }
  return least;
}

double software_product_s(const Machine& machine, const Product& p) {
  const DeviceModel& d = machine.device;
  const double half = tiled_product_s(d, p);
  const double peak = peak_of(d, p.type);
  if (!machine.software.fp8_products || p.in_head || p.part != ProductPart::linear ||
      d.fp8_flops <= peak || stream_rate(d) <= 0)
    return half;
  // A conversion reads 16 bits and writes two copies of 8: as it is, and turned for backward.
  const double converted = 4 * (as_double(p.m) * as_double(p.k) + as_double(p.k) * as_double(p.n));
  return std::min(half, half * peak / d.fp8_flops + converted / stream_rate(d));
}

double attention_s(const Machine& machine, const AttentionWork& a) {
  if (keeps_scores(machine.software))
    return unfused_attention_s(machine.device, machine.software, a);
  return fused_attention_s(machine.device, machine.software, a) + machine.device.launch_s;
}

double attention_launches(const Software& software, const AttentionWork& a) {
  if (a.heads == 0) return 0;
  if (!keeps_scores(software)) return 1;
  // And one kernel that arranges heads.
  return score_passes(software.attention).kernels + (a.backward ? 4 : 2) + 1;
}

double launches_of(const Software& software, const Stream& s) {
  return s.launches * (software.eager ? operations_of(software, s.kernel).kernels : 1);
}

double launches_of(const Software& software, const Product& p) {
  return as_double(p.count) * (adds_gradient(software, p) ? 2 : 1);
}

double adding_bytes(const Software& software, const Product& p) {
  return adds_gradient(software, p)
             ? 3 * as_double(dtype_bytes(p.c_type)) * as_double(p.m) * as_double(p.n)
             : 0;
}

double traffic_of(const Software& software, const Stream& s) {
  if (!software.eager) return 1;
  return software.eager_traffic * operations_of(software, s.kernel).bytes;
}

}  // namespace shardmark
