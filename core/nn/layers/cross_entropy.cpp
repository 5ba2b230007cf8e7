// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/cross_entropy.hpp>

namespace shardmark {

namespace {

constexpr std::int64_t run_elems = 1024;  // the longest fp32 sum; longer ones continue in double

// On the host with fp32, the powers overwrite the logits. The lanes of a warp compute them a second
// time, because arithmetic costs a GPU less than memory. The host also computes them twice for
// 16-bit types, which would round them.
template<class T>
constexpr bool keeps_powers = std::is_same_v<T, float> && !kernel::rows_are_warps;

// The derivative of a shaped logit, from its value.
struct Unshaped {
  static constexpr bool shapes = false;
  KOKKOS_INLINE_FUNCTION float slope(float) const { return 1; }
};
struct Shaped {
  static constexpr bool shapes = true;
  float factor, inverse_cap;
  KOKKOS_INLINE_FUNCTION float slope(float z) const {
    const float t = z * inverse_cap;
    return factor * (1 - t * t);
  }
};

// Returns the sum of e^(x - top) for count <= run_elems elements.
template<bool keeps, class T>
KOKKOS_INLINE_FUNCTION float sum_powers(const kernel::ThreadRow& row, std::int64_t count, T* x,
                                        float top) {
  float power[run_elems];  // a loop of its own lets the powers vectorise
  float* to = power;
  if constexpr (keeps) to = x;
  row.loop(count, [&](std::int64_t j) { to[j] = exp_f32(widen(x[j]) - top); });
  return row.sum<float>(count, [&](std::int64_t j) { return to[j]; });
}
template<bool keeps, class T>
KOKKOS_INLINE_FUNCTION float sum_powers(const kernel::WarpRow& row, std::int64_t count, const T* x,
                                        float top) {
  return row.sum<float>(count, [&](std::int64_t j) { return exp_f32(widen(x[j]) - top); });
}

template<class T, class S>
void cross_entropy_typed(const Context& ctx, const TransformerDims& dims,
                         const std::int32_t* tokens, T* logits, float* row_loss, float scale,
                         S shape) {
  constexpr bool keeps = keeps_powers<T> && !S::shapes;
  const std::int64_t vocab = dims.vocab, sequence = dims.sequence;
  const HeadPieces pieces(dims);
  kernel::for_each_row(
      ctx, "shardmark::cross_entropy", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const std::int64_t target = tokens[r / sequence * (sequence + 1) + r % sequence + 1];
        const std::int64_t target_piece = target / pieces.columns * pieces.columns;
        T* x_target = logits + pieces.row(target_piece, r) + (target - target_piece);
        const float target_logit = widen(*x_target);
        float top = target_logit;
        for (std::int64_t v = 0; v < vocab; v += pieces.columns) {
          const T* x = logits + pieces.row(v, r);
          const float highest =
              row.max(pieces.columns_of(v), [&](std::int64_t j) { return widen(x[j]); });
          top = highest > top ? highest : top;
        }
        double sum = 0;
        for (std::int64_t v = 0; v < vocab; v += pieces.columns)
          for (std::int64_t j = 0, n = pieces.columns_of(v); j < n; j += run_elems)
            sum += sum_powers<keeps>(row, n - j < run_elems ? n - j : run_elems,
                                     logits + pieces.row(v, r) + j, top);
        const auto factor = static_cast<float>(scale / sum);
        auto store = [&](T* part, std::int64_t count) {
          row.loop(count, [&](std::int64_t j) {
            if constexpr (keeps) {
              part[j] = part[j] * factor;
            } else {
              const float z = widen(part[j]);
              round_to(part[j], exp_f32(z - top) * factor * shape.slope(z));
            }
          });
        };
        for (std::int64_t v = 0; v < vocab; v += pieces.columns) {
          T* x = logits + pieces.row(v, r);
          const std::int64_t n = pieces.columns_of(v), at = target - v;
          if (v != target_piece) {
            store(x, n);
          } else {  // all but the target, so that no two lanes store to one place
            store(x, at);
            store(x + at + 1, n - at - 1);
          }
        }
        row.once([&] {
          round_to(*x_target,
                   (exp_f32(target_logit - top) * factor - scale) * shape.slope(target_logit));
          row_loss[r] = static_cast<float>(
              std::log(sum) + (static_cast<double>(top) - static_cast<double>(target_logit)));
        });
      });
}

}  // namespace

HeadPieces::HeadPieces(const TransformerDims& dims)
    : rows(dims.rows()),
      vocab(dims.vocab),
      columns(head_piece_columns(dims.dtype, kernel::on_host)) {}

void shape_logits(const Context& ctx, std::int64_t elems, Stored logits, const LogitShape& shape) {
  const float cap = shape.cap, inner = cap > 0 ? shape.factor / cap : shape.factor;
  with_storage(logits.dtype, [&](auto type) {
    auto* z = logits.as<decltype(type)>();
    kernel::for_each_elem(
        ctx, "shardmark::shape_logits", elems, KOKKOS_LAMBDA(std::int64_t i) {
          const float x = inner * widen(z[i]);
          round_to(z[i], cap > 0 ? cap * tanh_f32(x) : x);
        });
  });
}

void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   Stored logits, float* row_loss, float scale, const LogitShape& shape) {
  with_storage(logits.dtype, [&](auto type) {
    auto* z = logits.as<decltype(type)>();
    if (shape.none())
      cross_entropy_typed(ctx, dims, tokens, z, row_loss, scale, Unshaped());
    else
      cross_entropy_typed(ctx, dims, tokens, z, row_loss, scale,
                          Shaped{shape.factor, shape.cap > 0 ? 1 / shape.cap : 0});
  });
}

void mean_loss(const Context& ctx, std::int64_t rows, const float* row_loss, double* loss,
               bool first) {
  kernel::for_each_row(
      ctx, "shardmark::mean_loss", 1, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t) {
        const double mean = row.sum<double>(rows, [&](std::int64_t r) {
          return static_cast<double>(row_loss[r]);
        }) / static_cast<double>(rows);
        row.once([&] { *loss = first ? mean : *loss + mean; });
      });
}

}  // namespace shardmark
