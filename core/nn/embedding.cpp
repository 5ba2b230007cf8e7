// SPDX-License-Identifier: Apache-2.0
#include <core/nn/embedding.hpp>
#include <core/nn/kernel.hpp>

namespace shardmark {
namespace {

// Columns of a gradient's row that are summed at once, in fp32.
constexpr std::int64_t strip = kernel::on_host ? 2048 : 1;

template<class T>
KOKKOS_INLINE_FUNCTION void start_sum(std::int64_t count, bool accumulate, const T* row,
                                      float* sum) {
  if (accumulate)
    kernel::simd_loop(count, [&](std::int64_t j) { sum[j] = widen(row[j]); });
  else
    kernel::simd_loop(count, [&](std::int64_t j) { sum[j] = 0.0f; });
}

template<class T>
KOKKOS_INLINE_FUNCTION void add_row(std::int64_t count, const T* d, float* sum) {
  kernel::simd_loop(count, [&](std::int64_t j) { sum[j] += widen(d[j]); });
}

template<class T>
KOKKOS_INLINE_FUNCTION void store_sum(std::int64_t count, const float* sum, T* row) {
  kernel::simd_loop(count, [&](std::int64_t j) { round_to(row[j], sum[j]); });
}

template<class T>
void token_forward(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   const T* wte, T* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::token_embedding_forward", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t sample = r / sequence, position = r % sequence;
        const T* token = wte + std::int64_t{tokens[sample * (sequence + 1) + position]} * h;
        T* row = x + r * h;
        kernel::simd_loop(h, [&](std::int64_t j) { row[j] = token[j]; });
      });
}

template<class T>
void position_forward(const Context& ctx, const TransformerDims& dims, const T* wpe, T* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  kernel::for_each(
      ctx, "shardmark::position_embedding_forward", dims.rows(), KOKKOS_LAMBDA(std::int64_t r) {
        const T* place = wpe + r % sequence * h;
        T* row = x + r * h;
        kernel::simd_loop(
            h, [&](std::int64_t j) { round_to(row[j], widen(row[j]) + widen(place[j])); });
      });
}

KOKKOS_INLINE_FUNCTION bool occurs(const std::int32_t* ids, std::int64_t count,
                                   std::int32_t token) {
  std::int32_t found = 0;
  for (std::int64_t t = 0; t < count; ++t) found |= static_cast<std::int32_t>(ids[t] == token);
  return found != 0;
}

// Calls `f(r)` for each row r whose token is `token`, in order.
template<class F>
KOKKOS_INLINE_FUNCTION void for_each_row_of(const std::int32_t* tokens, std::int32_t token,
                                            std::int64_t samples, std::int64_t sequence,
                                            const F& f) {
  constexpr std::int64_t run = 128;  // tokens that one vector comparison loop covers
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::int32_t* ids = tokens + sample * (sequence + 1);
    for (std::int64_t t0 = 0; t0 < sequence; t0 += run) {
      const std::int64_t t1 = t0 + run < sequence ? t0 + run : sequence;
      if (!occurs(ids + t0, t1 - t0, token)) continue;
      for (std::int64_t t = t0; t < t1; ++t)
        if (ids[t] == token) f(sample * sequence + t);
    }
  }
}

// One iteration a row of wte, which reads all tokens: vocab * rows integer comparisons, 16 and more
// a cycle, are far cheaper than sorting's irregular writes would be worth.
template<class T>
void token_backward(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                    const T* dx, T* dwte, bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  kernel::for_each(
      ctx, "shardmark::token_embedding_backward", dims.vocab, KOKKOS_LAMBDA(std::int64_t v) {
        const auto token = static_cast<std::int32_t>(v);
        T* row = dwte + v * h;
        bool found = false;
        for (std::int64_t sample = 0; sample < samples; ++sample)
          found = found || occurs(tokens + sample * (sequence + 1), sequence, token);
        if (!found) {
          if (!accumulate) kernel::simd_loop(h, [&](std::int64_t j) { row[j] = T{}; });
          return;
        }
        float sum[strip];
        for (std::int64_t j0 = 0; j0 < h; j0 += strip) {
          const std::int64_t count = h - j0 < strip ? h - j0 : strip;
          start_sum(count, accumulate, row + j0, sum);
          for_each_row_of(tokens, token, samples, sequence,
                          [&](std::int64_t r) { add_row(count, dx + r * h + j0, sum); });
          store_sum(count, sum, row + j0);
        }
      });
}

template<class T>
void position_backward(const Context& ctx, const TransformerDims& dims, const T* dx, T* dwpe,
                       bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  kernel::for_each(
      ctx, "shardmark::position_embedding_backward", sequence, KOKKOS_LAMBDA(std::int64_t t) {
        float sum[strip];
        for (std::int64_t j0 = 0; j0 < h; j0 += strip) {
          const std::int64_t count = h - j0 < strip ? h - j0 : strip;
          T* row = dwpe + t * h + j0;
          start_sum(count, accumulate, row, sum);
          for (std::int64_t sample = 0; sample < samples; ++sample)
            add_row(count, dx + (sample * sequence + t) * h + j0, sum);
          store_sum(count, sum, row);
        }
      });
}

}  // namespace

void token_embedding_forward(const Context& ctx, const TransformerDims& dims,
                             const std::int32_t* tokens, ConstStored wte, Stored x) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    token_forward(ctx, dims, tokens, wte.as<T>(), x.as<T>());
  });
}

void position_embedding_forward(const Context& ctx, const TransformerDims& dims, ConstStored wpe,
                                Stored x) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    position_forward(ctx, dims, wpe.as<T>(), x.as<T>());
  });
}

void token_embedding_backward(const Context& ctx, const TransformerDims& dims,
                              const std::int32_t* tokens, ConstStored dx, Stored dwte,
                              bool accumulate) {
  with_storage(dx.dtype, [&](auto type) {
    using T = decltype(type);
    token_backward(ctx, dims, tokens, dx.as<T>(), dwte.as<T>(), accumulate);
  });
}

void position_embedding_backward(const Context& ctx, const TransformerDims& dims, ConstStored dx,
                                 Stored dwpe, bool accumulate) {
  with_storage(dx.dtype, [&](auto type) {
    using T = decltype(type);
    position_backward(ctx, dims, dx.as<T>(), dwpe.as<T>(), accumulate);
  });
}

}  // namespace shardmark
