// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include <core/nn/cross_entropy.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/math.hpp>

namespace shardmark {

namespace {

template<class T>
void cross_entropy_typed(const Context& ctx, const TransformerDims& dims,
                         const std::int32_t* tokens, T* logits, float* row_loss, float scale) {
  const std::int64_t vocab = dims.vocab, sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::cross_entropy", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        constexpr std::int64_t run = 1024;  // fp32 sums are kept this short
        float power[run];
        T* x = logits + r * vocab;
        const std::int64_t target = tokens[r / sequence * (sequence + 1) + r % sequence + 1];
        const float top = kernel::lane_max(vocab, [&](std::int64_t j) { return widen(x[j]); });
        const float target_logit = widen(x[target]);
        double sum = 0;
        for (std::int64_t j0 = 0; j0 < vocab; j0 += run) {
          const std::int64_t count = vocab - j0 < run ? vocab - j0 : run;
          T* part = x + j0;
          // Only fp32 holds the powers unrounded: the other types make them a second time below.
          float* to = power;
          if constexpr (std::is_same_v<T, float>) to = part;
          kernel::simd_loop(count, [&](std::int64_t j) { to[j] = exp_f32(widen(part[j]) - top); });
          sum += kernel::lane_sum<float>(count, [&](std::int64_t j) { return to[j]; });
        }
        const float factor = static_cast<float>(scale / sum);
        kernel::simd_loop(vocab, [&](std::int64_t j) {
          if constexpr (std::is_same_v<T, float>)
            x[j] = x[j] * factor;
          else
            round_to(x[j], exp_f32(widen(x[j]) - top) * factor);
        });
        round_to(x[target], exp_f32(target_logit - top) * factor - scale);
        row_loss[r] = static_cast<float>(
            std::log(sum) + (static_cast<double>(top) - static_cast<double>(target_logit)));
      });
}

}  // namespace

void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   Stored logits, float* row_loss, float scale) {
  with_storage(logits.dtype, [&](auto type) {
    cross_entropy_typed(ctx, dims, tokens, logits.as<decltype(type)>(), row_loss, scale);
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
