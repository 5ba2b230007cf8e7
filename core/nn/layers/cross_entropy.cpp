// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/cross_entropy.hpp>

namespace shardmark {
namespace detail {

// e^x for x <= 0. A GPU's own function has an absolute error below 1e-7 there, which is all that a
// sum of powers needs, and takes a fraction of the instructions, which limit this kernel.
KOKKOS_INLINE_FUNCTION float power_f32(float x) {
#if defined(SHARDMARK_ON_DEVICE)
  return __expf(x);
#else
  return exp_f32(x);
#endif
}

// Powers of a part of a row, as lanes collect them: sums of other parts grow smaller when a larger
// value is met.
struct PartPowers {
  float top = -INFINITY, sum = 0;
  KOKKOS_INLINE_FUNCTION static float below(float a, float b) {
    return a < b ? power_f32(a - b) : 1.0f;
  }
  KOKKOS_INLINE_FUNCTION void raise(float to) {
    if (!(to > top)) return;
    sum *= below(top, to);
    top = to;
  }
  KOKKOS_INLINE_FUNCTION PartPowers& operator+=(const PartPowers& other) {
    raise(other.top);
    sum += other.sum * below(other.top, top);
    return *this;
  }
};

}  // namespace detail
}  // namespace shardmark

namespace Kokkos {
template<>
struct reduction_identity<shardmark::detail::PartPowers> {
  KOKKOS_FORCEINLINE_FUNCTION static shardmark::detail::PartPowers sum() { return {}; }
};
}  // namespace Kokkos

namespace shardmark {
namespace {

using detail::PartPowers;
using detail::power_f32;

// The longest fp32 sum of a lane is a few hundred elements; longer ones continue in double.
constexpr std::int64_t sum_elems = kernel::rows_are_warps ? 8192 : 1024;

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

// The largest logit of a row, and the sum of e^(x - top) over the row.
struct Powers {
  float top;
  double sum;
};

// The sum of e^(x - top) for count <= sum_elems elements.
template<bool keeps, class T>
KOKKOS_INLINE_FUNCTION float sum_powers(const kernel::ThreadRow& row, std::int64_t count, T* x,
                                        float top) {
  float power[sum_elems];  // a loop of its own lets the powers vectorise
  float* to = power;
  if constexpr (keeps) to = x;
  row.loop(count, [&](std::int64_t j) { to[j] = exp_f32(widen(x[j]) - top); });
  return row.sum<float>(count, [&](std::int64_t j) { return to[j]; });
}

// The powers of row r. `top` is one of its logits; values that are not a number do not become the
// largest.
template<bool keeps, class T>
KOKKOS_INLINE_FUNCTION Powers powers_of(const kernel::ThreadRow& row, const HeadPieces& pieces,
                                        std::int64_t r, T* logits, float top) {
  for (std::int64_t p = 0; p < pieces.count; ++p) {
    const T* x = logits + pieces.row(p, r);
    const float highest =
        row.max(pieces.columns_of(p), [&](std::int64_t j) { return widen(x[j]); });
    top = highest > top ? highest : top;
  }
  double sum = 0;
  for (std::int64_t p = 0; p < pieces.count; ++p)
    for (std::int64_t j = 0, n = pieces.columns_of(p); j < n; j += sum_elems)
      sum += sum_powers<keeps>(row, n - j < sum_elems ? n - j : sum_elems,
                               logits + pieces.row(p, r) + j, top);
  return {top, sum};
}
// A GPU reads the logits once.
template<bool keeps, class T>
KOKKOS_INLINE_FUNCTION Powers powers_of(const kernel::WarpRow& row, const HeadPieces& pieces,
                                        std::int64_t r, const T* logits, float top) {
  double sum = 0;
  for (std::int64_t p = 0; p < pieces.count; ++p)
    for (std::int64_t first = 0, n = pieces.columns_of(p); first < n; first += sum_elems) {
      const T* x = logits + pieces.row(p, r) + first;
      const auto add = [&](std::int64_t j, int count, PartPowers& part) {
        float values[kernel::run_elems];
        kernel::load_run(x + j, count, values);
        float high = -INFINITY;
        for (int i = 0; i < kernel::run_elems; ++i)
          high = i < count && values[i] > high ? values[i] : high;
        part.raise(high);
        for (int i = 0; i < kernel::run_elems; ++i)
          part.sum += i < count && values[i] != -INFINITY ? power_f32(values[i] - part.top) : 0.0f;
      };
      const auto part =
          row.collect_runs<PartPowers>(n - first < sum_elems ? n - first : sum_elems, add);
      const float higher = part.top > top ? part.top : top;
      sum = sum * static_cast<double>(PartPowers::below(top, higher)) +
            static_cast<double>(part.sum * PartPowers::below(part.top, higher));
      top = higher;
    }
  return {top, sum};
}

// Replaces `count` logits by their gradients, as far as these do not depend on the target. Logits
// that were kept as powers are only multiplied.
template<bool keeps, class T, class S>
KOKKOS_INLINE_FUNCTION void store_part(const kernel::ThreadRow& row, std::int64_t count, T* x,
                                       float top, float factor, const S& shape) {
  row.loop(count, [&](std::int64_t j) {
    if constexpr (keeps) {
      x[j] = x[j] * factor;
    } else {
      const float z = widen(x[j]);
      round_to(x[j], exp_f32(z - top) * factor * shape.slope(z));
    }
  });
}
template<bool keeps, class T, class S>
KOKKOS_INLINE_FUNCTION void store_part(const kernel::WarpRow& row, std::int64_t count, T* x,
                                       float top, float factor, const S& shape) {
  row.runs(count, [&](std::int64_t j, int n) {
    float values[kernel::run_elems];
    kernel::load_run(x + j, n, values);
    for (float& z : values) z = power_f32(z - top) * factor * shape.slope(z);
    kernel::store_run(x + j, n, values);
  });
}

template<class T, class S>
void cross_entropy_typed(const Context& ctx, const TransformerDims& dims,
                         const std::int32_t* tokens, T* logits, float* row_loss, float scale,
                         S shape) {
  constexpr bool keeps = keeps_powers<T> && !S::shapes;
  const std::int64_t sequence = dims.sequence;
  const HeadPieces pieces(dims);
  kernel::for_each_row(
      ctx, "shardmark::cross_entropy", dims.rows(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const std::int64_t target = tokens[r / sequence * (sequence + 1) + r % sequence + 1];
        const std::int64_t target_piece = pieces.piece_of(target);
        T* x_target = logits + pieces.row(target_piece, r) + (target - pieces.first(target_piece));
        const float target_logit = widen(*x_target);
        const Powers powers = powers_of<keeps>(row, pieces, r, logits, target_logit);
        const float top = powers.top;
        const double sum = powers.sum;
        const auto factor = static_cast<float>(scale / sum);
        auto store = [&](T* part, std::int64_t count) {
          store_part<keeps>(row, count, part, top, factor, shape);
        };
        for (std::int64_t p = 0; p < pieces.count; ++p) {
          T* x = logits + pieces.row(p, r);
          const std::int64_t n = pieces.columns_of(p), at = target - pieces.first(p);
          if (p != target_piece) {
            store(x, n);
          } else {  // all but the target, so that no two lanes store to one place
            store(x, at);
            store(x + at + 1, n - at - 1);
          }
        }
        row.once([&] {
          round_to(*x_target,
                   (power_f32(target_logit - top) * factor - scale) * shape.slope(target_logit));
          row_loss[r] = static_cast<float>(
              std::log(sum) + (static_cast<double>(top) - static_cast<double>(target_logit)));
        });
      });
}

/// A logit times a factor, and below a cap if that is not 0.
struct ShapeLogit {
  float inner, cap;
  KOKKOS_INLINE_FUNCTION float operator()(float logit) const {
    return cap > 0 ? cap * tanh_f32(inner * logit) : inner * logit;
  }
};

}  // namespace

HeadPieces::HeadPieces(const TransformerDims& dims)
    : rows(dims.rows()),
      vocab(dims.vocab),
      columns(dims.head_part.cuts() ? dims.head_part.most(vocab)
                                    : head_piece_columns(dims, kernel::on_host)),
      wide(dims.head_part.cuts() && vocab % dims.head_part.ranks != 0
               ? vocab % dims.head_part.ranks
               : (vocab + columns - 1) / columns),
      count(dims.head_part.cuts() ? dims.head_part.ranks : wide) {}

void shape_logits(const Context& ctx, std::int64_t elems, Stored logits, const LogitShape& shape) {
  const float cap = shape.cap, inner = cap > 0 ? shape.factor / cap : shape.factor;
  with_elements(
      [&](auto* z) {
        kernel::map_values(ctx, "shardmark::shape_logits", elems, z, ShapeLogit{inner, cap}, z);
      },
      logits);
}

void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   Stored logits, float* row_loss, float scale, const LogitShape& shape) {
  with_elements(
      [&](auto* z) {
        if (shape.none())
          cross_entropy_typed(ctx, dims, tokens, z, row_loss, scale, Unshaped());
        else
          cross_entropy_typed(ctx, dims, tokens, z, row_loss, scale,
                              Shaped{shape.factor, shape.cap > 0 ? 1 / shape.cap : 0});
      },
      logits);
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
