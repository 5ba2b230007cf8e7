// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/cross_entropy.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/math.hpp>

namespace shardmark {

void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   float* logits, float* row_loss, float scale) {
  const std::int64_t vocab = dims.vocab, sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::cross_entropy", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        constexpr std::int64_t run = 1024;  // fp32 sums are kept this short
        float* x = logits + r * vocab;
        const std::int64_t target = tokens[r / sequence * (sequence + 1) + r % sequence + 1];
        const float top = kernel::lane_max(vocab, [&](std::int64_t j) { return x[j]; });
        const float target_logit = x[target];
        double sum = 0;
        for (std::int64_t j0 = 0; j0 < vocab; j0 += run) {
          const std::int64_t count = vocab - j0 < run ? vocab - j0 : run;
          float* part = x + j0;
          kernel::simd_loop(count, [&](std::int64_t j) { part[j] = exp_f32(part[j] - top); });
          sum += kernel::lane_sum<float>(count, [&](std::int64_t j) { return part[j]; });
        }
        const float factor = static_cast<float>(scale / sum);
        kernel::simd_loop(vocab, [&](std::int64_t j) { x[j] = x[j] * factor; });
        x[target] -= scale;
        row_loss[r] = static_cast<float>(
            std::log(sum) + (static_cast<double>(top) - static_cast<double>(target_logit)));
      });
}

void mean_loss(const Context& ctx, std::int64_t rows, const float* row_loss, double* loss,
               bool first) {
  kernel::for_each(
      ctx, "shardmark::mean_loss", 1, KOKKOS_LAMBDA(std::int64_t) {
        const double mean =
            kernel::lane_sum<double>(
                rows, [&](std::int64_t r) { return static_cast<double>(row_loss[r]); }) /
            static_cast<double>(rows);
        *loss = first ? mean : *loss + mean;
      });
}

}  // namespace shardmark
