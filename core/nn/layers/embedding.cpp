// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/embedding.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t columns_at_once = 2048;  // columns that one thread sums at a time, in fp32

// row[h] (+)= the rows of dx for which `rows` calls a function, in that order, in fp32 and rounded
// once.
template<class T, class Rows>
KOKKOS_INLINE_FUNCTION void add_rows(const kernel::ThreadRow& by, std::int64_t h, const T* dx,
                                     const Rows& rows, T* row, bool accumulate, float factor) {
  float sum[columns_at_once];
  for (std::int64_t j0 = 0; j0 < h; j0 += columns_at_once) {
    const std::int64_t count = h - j0 < columns_at_once ? h - j0 : columns_at_once;
    T* to = row + j0;
    if (accumulate)
      by.loop(count, [&](std::int64_t j) { sum[j] = widen(to[j]); });
    else
      by.loop(count, [&](std::int64_t j) { sum[j] = 0.0f; });
    rows([&](std::int64_t r) {
      const T* d = dx + r * h + j0;
      by.loop(count, [&](std::int64_t j) { sum[j] += factor * widen(d[j]); });
    });
    by.loop(count, [&](std::int64_t j) { round_to(to[j], sum[j]); });
  }
}

// Each lane has several columns, a multiple of `width` apart, so that the search for rows is
// repeated seldom.
template<class T, class Rows>
KOKKOS_INLINE_FUNCTION void add_rows(const kernel::WarpRow& by, std::int64_t h, const T* dx,
                                     const Rows& rows, T* row, bool accumulate, float factor) {
  constexpr int held = 8;
  const std::int64_t width = (h + held - 1) / held;
  by.loop(width, [&](std::int64_t first) {
    float sum[held] = {};
    auto each = [&](const auto& f) {
      for (int i = 0; i < held; ++i)
        if (first + i * width < h) f(sum[i], first + i * width);
    };
    if (accumulate) each([&](float& s, std::int64_t j) { s = widen(row[j]); });
    rows([&](std::int64_t r) {
      each([&](float& s, std::int64_t j) { s += factor * widen(dx[r * h + j]); });
    });
    each([&](float s, std::int64_t j) { round_to(row[j], s); });
  });
}

template<class T>
void token_forward(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   const T* wte, T* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  const auto factor = static_cast<float>(dims.decoder->ends.embedding_factor);
  kernel::for_each_row(
      ctx, "shardmark::token_embedding_forward", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const std::int64_t sample = r / sequence, position = r % sequence;
        const T* token = wte + std::int64_t{tokens[sample * (sequence + 1) + position]} * h;
        T* to = x + r * h;
        if (factor == 1)
          row.loop(h, [&](std::int64_t j) { to[j] = token[j]; });
        else
          row.loop(h, [&](std::int64_t j) { round_to(to[j], factor * widen(token[j])); });
      });
}

template<class T>
void position_forward(const Context& ctx, const TransformerDims& dims, const T* wpe, T* x) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence;
  const std::int64_t offset = dims.decoder->positions.offset;
  kernel::for_each_row(
      ctx, "shardmark::position_embedding_forward", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T* place = wpe + (offset + r % sequence) * h;
        T* to = x + r * h;
        row.loop(h, [&](std::int64_t j) { round_to(to[j], widen(to[j]) + widen(place[j])); });
      });
}

KOKKOS_INLINE_FUNCTION bool occurs(const std::int32_t* ids, std::int64_t count,
                                   std::int32_t token) {
  std::int32_t found = 0;
  for (std::int64_t t = 0; t < count; ++t) found |= static_cast<std::int32_t>(ids[t] == token);
  return found != 0;
}
KOKKOS_INLINE_FUNCTION bool occurs(const kernel::ThreadRow&, const std::int32_t* ids,
                                   std::int64_t count, std::int32_t token) {
  return occurs(ids, count, token);
}
KOKKOS_INLINE_FUNCTION bool occurs(const kernel::WarpRow& by, const std::int32_t* ids,
                                   std::int64_t count, std::int32_t token) {
  return by.sum<int>(count, [&](std::int64_t t) { return ids[t] == token ? 1 : 0; }) != 0;
}

// Calls `f(r)` for each row r whose token is `token`, in the order of rows.
struct RowsOfToken {
  const std::int32_t* tokens;
  std::int32_t token;
  std::int64_t samples, sequence;

  template<class F>
  KOKKOS_INLINE_FUNCTION void operator()(const F& f) const {
    constexpr std::int64_t tokens_at_once =
        128;  // tokens that one vectorised comparison loop covers
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const std::int32_t* ids = tokens + sample * (sequence + 1);
      for (std::int64_t t0 = 0; t0 < sequence; t0 += tokens_at_once) {
        const std::int64_t t1 = t0 + tokens_at_once < sequence ? t0 + tokens_at_once : sequence;
        if (!occurs(ids + t0, t1 - t0, token)) continue;
        for (std::int64_t t = t0; t < t1; ++t)
          if (ids[t] == token) f(sample * sequence + t);
      }
    }
  }
};

// Calls `f(r)` for the row r of each sample that is at `position`, in the order of samples.
struct RowsAtPosition {
  std::int64_t position, samples, sequence;

  template<class F>
  KOKKOS_INLINE_FUNCTION void operator()(const F& f) const {
    for (std::int64_t sample = 0; sample < samples; ++sample) f(sample * sequence + position);
  }
};

// One iteration per row of wte, and each reads all tokens. These vocab * rows integer comparisons,
// 16 or more per cycle, are far cheaper than the irregular writes of a sort.
template<class T>
void token_backward(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                    const T* dx, T* dwte, bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  const auto factor = static_cast<float>(dims.decoder->ends.embedding_factor);
  const std::int64_t padding = dims.decoder->ends.padding_token;
  kernel::for_each_row(
      ctx, "shardmark::token_embedding_backward", dims.vocab,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t v) {
        const auto token = static_cast<std::int32_t>(v);
        T* to = dwte + v * h;
        bool found = false;
        for (std::int64_t sample = 0; v != padding && sample < samples; ++sample)
          found = found || occurs(row, tokens + sample * (sequence + 1), sequence, token);
        if (found)
          add_rows(row, h, dx, RowsOfToken{tokens, token, samples, sequence}, to, accumulate,
                   factor);
        else if (!accumulate)
          row.loop(h, [&](std::int64_t j) { to[j] = T{}; });
      });
}

template<class T>
void position_backward(const Context& ctx, const TransformerDims& dims, const T* dx, T* dwpe,
                       bool accumulate) {
  const std::int64_t h = dims.hidden, sequence = dims.sequence, samples = dims.micro_batch;
  const PositionSpec& p = dims.decoder->positions;
  const std::int64_t offset = p.offset, table = p.rows > 0 ? p.rows : offset + sequence;
  kernel::for_each_row(
      ctx, "shardmark::position_embedding_backward", table,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t t) {
        const std::int64_t position = t - offset;
        T* to = dwpe + t * h;
        if (position >= 0 && position < sequence)
          add_rows(row, h, dx, RowsAtPosition{position, samples, sequence}, to, accumulate, 1.0f);
        else if (!accumulate)
          row.loop(h, [&](std::int64_t j) { to[j] = T{}; });
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
