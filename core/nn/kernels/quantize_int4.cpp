// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/quantize_group.hpp>
#include <core/nn/kernels/quantize_int4.hpp>

namespace shardmark {
namespace {

KOKKOS_INLINE_FUNCTION std::int8_t packed(int first, int second) {
  return static_cast<std::int8_t>(static_cast<unsigned>(first) << 4 |
                                  (static_cast<unsigned>(second) & 0xFU));
}

// The element of a byte, with its sign.
KOKKOS_INLINE_FUNCTION int first_of(std::int8_t byte) {
  return byte >> 4;
}
KOKKOS_INLINE_FUNCTION int second_of(std::int8_t byte) {
  return static_cast<std::int8_t>(static_cast<unsigned>(byte) << 4) >> 4;
}

KOKKOS_INLINE_FUNCTION float in_fp16(float v) {
  return widen(round_fp16(v));
}

// Quantizes one group, whose element j is `value(j)`.
template<class Value>
KOKKOS_INLINE_FUNCTION void quantize_group(const kernel::Row& row, std::int64_t size,
                                           std::int8_t* q, float* step, const Value& value) {
  const float per_step = kernel::levels_per_unit<8>(row, size, value);
  row.loop(size / 2, [&](std::int64_t j) {
    q[j] = packed(kernel::to_level<8>(value(2 * j) * per_step),
                  kernel::to_level<8>(value(2 * j + 1) * per_step));
  });
  row.once([&] { *step = 1.0f / per_step; });
}

}  // namespace

void quantize_int4(const Context& ctx, std::int64_t elems, std::int64_t groups, int nodes,
                   int node_ranks, std::int8_t* to, float* steps, const Fp16* from) {
  if (elems == 0) return;
  const std::int64_t size = elems / groups;
  const std::int64_t groups_of_part = groups / (std::int64_t{nodes} * node_ranks);
  kernel::for_each_row(
      ctx, "shardmark::quantize_int4", groups,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t g) {
        const std::int64_t part = g / groups_of_part;
        const std::int64_t sent = part % node_ranks * nodes + part / node_ranks;
        const std::int64_t place = sent * groups_of_part + g % groups_of_part;
        const Fp16* x = from + g * size;
        quantize_group(row, size, to + place * (size / 2), steps + place,
                       [&](std::int64_t j) { return widen(x[j]); });
      });
}

void reduce_int4(const Context& ctx, std::int64_t elems, std::int64_t groups, int tensors,
                 std::int8_t* to, float* steps, const std::int8_t* from, const float* from_steps) {
  if (elems == 0) return;
  const std::int64_t size = elems / groups;
  kernel::for_each_row(
      ctx, "shardmark::reduce_int4", groups, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t g) {
        quantize_group(row, size, to + g * (size / 2), steps + g, [&](std::int64_t j) {
          float sum = 0;
          for (int t = 0; t < tensors; ++t) {
            const std::int8_t byte = from[(t * groups + g) * (size / 2) + j / 2];
            const auto q = static_cast<float>(j % 2 == 0 ? first_of(byte) : second_of(byte));
            sum = in_fp16(sum + in_fp16(q * from_steps[t * groups + g]));
          }
          return sum;
        });
      });
}

void dequantize_int4(const Context& ctx, std::int64_t elems, std::int64_t groups, Fp16* to,
                     const std::int8_t* from, const float* steps) {
  if (elems == 0) return;
  const std::int64_t size = elems / groups;
  kernel::for_each_row(
      ctx, "shardmark::dequantize_int4", groups,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t g) {
        const float step = steps[g];
        const std::int8_t* q = from + g * (size / 2);
        Fp16* x = to + g * size;
        row.loop(size / 2, [&](std::int64_t j) {
          x[2 * j] = round_fp16(static_cast<float>(first_of(q[j])) * step);
          x[2 * j + 1] = round_fp16(static_cast<float>(second_of(q[j])) * step);
        });
      });
}

void sum_parts(const Context& ctx, std::int64_t elems, int parts, Fp16* to, const Fp16* from) {
  if (elems == 0) return;
  kernel::for_each_elem(
      ctx, "shardmark::sum_parts", elems, KOKKOS_LAMBDA(std::int64_t i) {
        float sum = widen(from[i]);
        for (int p = 1; p < parts; ++p) sum = in_fp16(sum + widen(from[p * elems + i]));
        to[i] = round_fp16(sum);
      });
}

}  // namespace shardmark
