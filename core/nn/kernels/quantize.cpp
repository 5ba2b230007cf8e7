// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/quantize.hpp>
#include <core/nn/kernels/quantize_group.hpp>

namespace shardmark {

void quantize(const Context& ctx, std::int64_t elems, std::int64_t groups, std::int8_t* to,
              float* steps, const Fp16* from) {
  if (elems == 0) return;
  const std::int64_t size = elems / groups;
  kernel::for_each_row(
      ctx, "shardmark::quantize", groups, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t g) {
        const Fp16* x = from + g * size;
        std::int8_t* q = to + g * size;
        const float per_step =
            kernel::levels_per_unit<128>(row, size, [&](std::int64_t j) { return widen(x[j]); });
        row.loop(size, [&](std::int64_t j) {
          q[j] = static_cast<std::int8_t>(kernel::to_level<128>(widen(x[j]) * per_step));
        });
        row.once([&] { steps[g] = 1.0f / per_step; });
      });
}

void dequantize(const Context& ctx, std::int64_t elems, std::int64_t groups, Fp16* to,
                const std::int8_t* from, const float* steps) {
  if (elems == 0) return;
  const std::int64_t size = elems / groups;
  kernel::for_each_row(
      ctx, "shardmark::dequantize", groups, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t g) {
        const float step = steps[g];
        const std::int8_t* q = from + g * size;
        Fp16* x = to + g * size;
        row.loop(size, [&](std::int64_t j) { x[j] = round_fp16(static_cast<float>(q[j]) * step); });
      });
}

}  // namespace shardmark
