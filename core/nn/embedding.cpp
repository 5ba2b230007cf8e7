// SPDX-License-Identifier: Apache-2.0
#include <core/nn/embedding.hpp>
#include <core/nn/kernel.hpp>

namespace shardmark {

void token_embedding_forward(const Context& ctx, const TransformerDims& dims,
                             const std::int32_t* tokens, const float* wte, float* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::token_embedding_forward", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t sample = r / sequence, position = r % sequence;
        const float* token = wte + std::int64_t{tokens[sample * (sequence + 1) + position]} * h;
        float* row = x + r * h;
        kernel::simd_loop(h, [&](std::int64_t j) { row[j] = token[j]; });
      });
}

void position_embedding_forward(const Context& ctx, const TransformerDims& dims, const float* wpe,
                                float* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::position_embedding_forward", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        const float* place = wpe + r % sequence * h;
        float* row = x + r * h;
        kernel::simd_loop(h, [&](std::int64_t j) { row[j] = row[j] + place[j]; });
      });
}

// One iteration a row of wte, which reads all tokens: vocab * rows integer comparisons, 16 and more
// a cycle, are far cheaper than sorting's irregular writes would be worth.
void token_embedding_backward(const Context& ctx, const TransformerDims& dims,
                              const std::int32_t* tokens, const float* dx, float* dwte,
                              bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  kernel::for_each(
      ctx, "shardmark::token_embedding_backward", dims.vocab, KOKKOS_LAMBDA(std::int64_t v) {
        constexpr std::int64_t run = 128;  // tokens that one vector comparison loop covers
        const std::int32_t token = static_cast<std::int32_t>(v);
        float* row = dwte + v * h;
        if (!accumulate) kernel::simd_loop(h, [&](std::int64_t j) { row[j] = 0.0f; });
        for (std::int64_t sample = 0; sample < samples; ++sample) {
          const std::int32_t* ids = tokens + sample * (sequence + 1);
          for (std::int64_t t0 = 0; t0 < sequence; t0 += run) {
            const std::int64_t t1 = t0 + run < sequence ? t0 + run : sequence;
            std::int32_t found = 0;
            for (std::int64_t t = t0; t < t1; ++t)
              found |= static_cast<std::int32_t>(ids[t] == token);
            if (found == 0) continue;
            for (std::int64_t t = t0; t < t1; ++t) {
              if (ids[t] != token) continue;
              const float* d = dx + (sample * sequence + t) * h;
              kernel::simd_loop(h, [&](std::int64_t j) { row[j] += d[j]; });
            }
          }
        }
      });
}

void position_embedding_backward(const Context& ctx, const TransformerDims& dims, const float* dx,
                                 float* dwpe, bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  kernel::for_each(
      ctx, "shardmark::position_embedding_backward", sequence, KOKKOS_LAMBDA(std::int64_t t) {
        float* row = dwpe + t * h;
        if (!accumulate) kernel::simd_loop(h, [&](std::int64_t j) { row[j] = 0.0f; });
        for (std::int64_t sample = 0; sample < samples; ++sample) {
          const float* d = dx + (sample * sequence + t) * h;
          kernel::simd_loop(h, [&](std::int64_t j) { row[j] += d[j]; });
        }
      });
}

}  // namespace shardmark
