// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include <core/nn/kernels/pieces.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/prefetch.hpp>

namespace shardmark::detail {

// Moves the bits above the lowest 32 into the next limb. Limbs are not negative.
KOKKOS_INLINE_FUNCTION void carry(std::int64_t* limb) {
  for (int l = 0; l + 1 < exact_sum_payload_limbs; ++l) {
    limb[l + 1] += limb[l] >> exact_sum_limb_bits;
    limb[l] &= (std::int64_t{1} << exact_sum_limb_bits) - 1;
  }
}

// A fixed-point number during a reduction. The additions are those of integers, so every order
// gives the same limbs.
struct Limbs {
  std::int64_t limb[exact_sum_limbs] = {};
  KOKKOS_INLINE_FUNCTION Limbs& operator+=(const Limbs& other) {
    for (int l = 0; l < exact_sum_limbs; ++l) limb[l] += other.limb[l];
    carry(limb);
    return *this;
  }
  KOKKOS_INLINE_FUNCTION volatile Limbs& operator+=(const volatile Limbs& other) volatile {
    for (int l = 0; l < exact_sum_limbs; ++l) limb[l] = limb[l] + other.limb[l];
    return *this;
  }
};

}  // namespace shardmark::detail

namespace Kokkos {
template<>
struct reduction_identity<shardmark::detail::Limbs> {
  KOKKOS_FORCEINLINE_FUNCTION static shardmark::detail::Limbs sum() { return {}; }
};
}  // namespace Kokkos

namespace shardmark {
namespace {

using detail::carry;
using detail::Limbs;

// Elements per block of the native sum, whose order follows from it.
constexpr std::int64_t block_elems = 4096;
constexpr std::int64_t exact_elems = 1 << 14;  // elements between two carries of the exact sum

constexpr int exponents = 256, tables = 4;
constexpr std::uint32_t not_finite = 255;

// An fp32 value is M * 2^(E - 150), where M < 2^24 and E is its exponent field (1 for denormals),
// so its square is M^2 * 2^(2 E - 300). `square` is M^2, or 1 if the value is not finite.
struct SquareOf {
  std::uint32_t field;
  std::uint64_t square;
  KOKKOS_INLINE_FUNCTION explicit SquareOf(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    field = (bits >> 23) & 0xFFu;
    const std::uint64_t mantissa = (bits & 0x7FFFFFu) | (field == 0 ? 0u : 0x800000u);
    square = field == not_finite ? 1u : mantissa * mantissa;
  }
};

// Adds a sum of squares that have the same exponent to the limbs.
KOKKOS_INLINE_FUNCTION void add_at_exponent(std::uint32_t field, std::uint64_t sum,
                                            std::int64_t* limb) {
  const int bit = 2 * static_cast<int>(field == 0 ? 1u : field) - 300 - exact_sum_lowest_bit;
  const int l = bit / exact_sum_limb_bits, shift = bit % exact_sum_limb_bits;
  const std::uint64_t low = (sum & 0xFFFFFFFFu) << shift, high = (sum >> 32) << shift;
  limb[l] += static_cast<std::int64_t>(low & 0xFFFFFFFFu);
  limb[l + 1] += static_cast<std::int64_t>((low >> 32) + (high & 0xFFFFFFFFu));
  limb[l + 2] += static_cast<std::int64_t>(high >> 32);
}

// Sums M^2 by exponent in four tables, so that equal exponents do not wait for each other; 2^14
// terms below 2^48 fit into 64 bits. Then the sum of each exponent is added to the limbs.
template<class T>
KOKKOS_INLINE_FUNCTION Limbs add_squares(const kernel::ThreadRow&, std::int64_t count, const T* x) {
  std::uint64_t by_exponent[tables][exponents] = {};
  for (std::int64_t j = 0; j < count; ++j) {
    const SquareOf s(widen(x[j]));
    by_exponent[j % tables][s.field] += s.square;
  }
  Limbs total;
  for (std::uint32_t field = 0; field < not_finite; ++field) {
    std::uint64_t sum = 0;
    for (const auto& table : by_exponent) sum += table[field];
    if (sum != 0) add_at_exponent(field, sum, total.limb);
  }
  for (const auto& table : by_exponent)
    total.limb[exact_sum_payload_limbs] += static_cast<std::int64_t>(table[not_finite]);
  return total;
}

// A sum of squares whose exponents lie close together, in 128 bits: a lane has no room for tables,
// and additions to limbs at any place are slow. The squares of 512 elements fit, whose exponent
// fields are at most 35 above the lowest.
struct NearSquares {
  static constexpr std::uint32_t below = 20, fields = 36;  // below the first element's, and in all
  static constexpr std::uint32_t highest_first = 150;      // the limbs above must exist
  std::uint32_t lowest = 0;                                // 0: not chosen yet
  std::uint64_t low = 0, high = 0;

  /// Returns whether the square could be added.
  KOKKOS_INLINE_FUNCTION bool add(const SquareOf& s) {
    const std::uint32_t field = s.field == 0 ? 1u : s.field;
    if (lowest == 0 && s.square != 0 && field <= highest_first)
      lowest = field > below ? field - below : 1u;
    if (lowest == 0 || field < lowest || field >= lowest + fields) return s.square == 0;
    const std::uint32_t shift = 2 * (field - lowest);
    const std::uint64_t part = shift < 64 ? s.square << shift : 0u;
    high += shift == 0 ? 0u : shift < 64 ? s.square >> (64 - shift) : s.square << (shift - 64);
    low += part;
    high += low < part ? 1u : 0u;
    return true;
  }
  KOKKOS_INLINE_FUNCTION void add_to(std::int64_t* limb) const {
    if (lowest == 0) return;
    add_at_exponent(lowest, low, limb);
    add_at_exponent(lowest + 32, high, limb);  // 2^64 times as much
  }
};

template<class T>
KOKKOS_INLINE_FUNCTION Limbs add_squares(const kernel::WarpRow& row, std::int64_t count,
                                         const T* x) {
  Limbs total;
  Kokkos::parallel_reduce(
      Kokkos::ThreadVectorRange(row.team, kernel::warp_lanes),
      [&](int lane, Limbs& sum) {
        NearSquares near;
        constexpr std::int64_t step = std::int64_t{kernel::warp_lanes} * kernel::run_elems;
        for (std::int64_t j = std::int64_t{lane} * kernel::run_elems; j < count; j += step) {
          float values[kernel::run_elems];
          kernel::load_run(x + j, kernel::elems_of_run(j, count), values);
          for (const float value : values) {
            const SquareOf s(value);
            if (s.field == not_finite)
              ++sum.limb[exact_sum_payload_limbs];
            else if (!near.add(s))
              add_at_exponent(s.field, s.square, sum.limb);
          }
        }
        near.add_to(sum.limb);
      },
      total);
  return total;
}

// The value of an exact sum; not a number if any element was not finite.
KOKKOS_INLINE_FUNCTION double value_of(const std::int64_t* limbs) {
  Limbs whole;
  for (int l = 0; l < exact_sum_limbs; ++l) whole.limb[l] = limbs[l];
  carry(whole.limb);
  // From the highest limb down, always in this order; each limb is below 2^32 now.
  double sum = 0;
  for (int l = exact_sum_payload_limbs - 1; l >= 0; --l)
    sum += std::ldexp(static_cast<double>(whole.limb[l]),
                      exact_sum_lowest_bit + l * exact_sum_limb_bits);
  return whole.limb[exact_sum_payload_limbs] == 0 ? sum : std::nan("");
}

// `scaled` is the norm of gradients that still contain the loss scale.
KOKKOS_INLINE_FUNCTION void write_clip(double scaled, const ClipRule& rule, double* clip) {
  const double norm = scaled / rule.loss_scale;
  const double coefficient = rule.clipping / (norm + 1e-6);
  clip[0] = norm * rule.norm_factor;
  clip[1] = (rule.clipping > 0 && !(coefficient >= 1.0) ? coefficient : 1.0) / rule.loss_scale;
}

// The sum of the squares of a block. A square is exact, so that a fused addition has the bits of
// v * v + part.
template<class T>
KOKKOS_INLINE_FUNCTION double squares_of_block(const kernel::ThreadRow& row, std::int64_t count,
                                               const T* g) {
  return row.collect<double>(
      count,
      [&](std::int64_t j, double& part) {
        const double v = widen(g[j]);
        part = std::fma(v, v, part);
      },
      [&](std::int64_t j) { kernel::prefetch_after(g + j, kernel::lanes); });
}
template<class T>
KOKKOS_INLINE_FUNCTION double squares_of_block(const kernel::WarpRow& row, std::int64_t count,
                                               const T* g) {
  return row.collect_runs<double>(count, [&](std::int64_t j, int n, double& part) {
    float values[kernel::run_elems];
    kernel::load_run(g + j, n, values);
    for (const float value : values) {
      const double v = value;
      part = std::fma(v, v, part);
    }
  });
}

template<class T>
void sum_squares_typed(const Context& ctx, std::int64_t elems, const T* grad, double* sum,
                       bool first) {
  kernel::sum_rows(
      ctx, "shardmark::sum_squares", (elems + block_elems - 1) / block_elems, sum, first,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t block) {
        const std::int64_t rest = elems - block * block_elems;
        return squares_of_block(row, rest < block_elems ? rest : block_elems,
                                grad + block * block_elems);
      });
}

template<class T>
void sum_squares_exact_typed(const Context& ctx, std::int64_t elems, const T* grad,
                             std::int64_t* limbs, bool first) {
  kernel::sum_rows(
      ctx, "shardmark::sum_squares_exact", (elems + exact_elems - 1) / exact_elems,
      reinterpret_cast<Limbs*>(limbs), first,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t chunk) {
        const std::int64_t rest = elems - chunk * exact_elems;
        return add_squares(row, rest < exact_elems ? rest : exact_elems,
                           grad + chunk * exact_elems);
      });
}

/// Multiplies the runs of a gradient by the coefficient.
struct ClipRun {
  Stored grad;
  const double* coefficient;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    const auto factor = static_cast<float>(*coefficient);
    float values[kernel::run_elems];
    kernel::load_run(grad.dtype, grad.data, at, n, values);
    for (float& v : values) v *= factor;
    kernel::store_run(grad.dtype, grad.data, at, n, values);
  }
};

}  // namespace

void sum_squares(const Context& ctx, std::int64_t elems, ConstStored grad, double* sum,
                 bool first) {
  with_elements([&](auto* g) { sum_squares_typed(ctx, elems, g, sum, first); }, grad);
}

void sum_squares_exact(const Context& ctx, std::int64_t elems, ConstStored grad,
                       std::int64_t* limbs, bool first) {
  with_elements([&](auto* g) { sum_squares_exact_typed(ctx, elems, g, limbs, first); }, grad);
}

void add_sum(const Context& ctx, double* into, const double* sum) {
  kernel::for_each(
      ctx, "shardmark::add_sum", 1, KOKKOS_LAMBDA(std::int64_t) { *into += *sum; });
}

void add_limbs(const Context& ctx, std::int64_t* into, const std::int64_t* limbs) {
  kernel::for_each(
      ctx, "shardmark::add_limbs", 1, KOKKOS_LAMBDA(std::int64_t) {
        Limbs whole;
        for (int l = 0; l < exact_sum_limbs; ++l) whole.limb[l] = limbs[l];
        carry(whole.limb);
        carry(into);
        for (int l = 0; l < exact_sum_limbs; ++l) into[l] += whole.limb[l];
      });
}

void clip_without_norm(const Context& ctx, const ClipRule& rule, double* clip) {
  const double loss_scale = rule.loss_scale;
  kernel::for_each(
      ctx, "shardmark::clip_without_norm", 1, KOKKOS_LAMBDA(std::int64_t) {
        clip[0] = 0;
        clip[1] = 1 / loss_scale;
      });
}

void clip_from_sum(const Context& ctx, const double* sum, const ClipRule& rule, double* clip,
                   const double* updates) {
  const ClipRule r = rule;
  kernel::for_each(
      ctx, "shardmark::clip_from_sum", 1, KOKKOS_LAMBDA(std::int64_t) {
        const double scaled = (sum != nullptr ? *sum : 0) +
                              (updates != nullptr ? *updates * r.scale_of_updates() : 0);
        write_clip(std::sqrt(scaled), r, clip);
      });
}

void clip_from_limbs(const Context& ctx, const std::int64_t* limbs, const ClipRule& rule,
                     double* clip, const std::int64_t* updates) {
  const ClipRule r = rule;
  kernel::for_each(
      ctx, "shardmark::clip_from_limbs", 1, KOKKOS_LAMBDA(std::int64_t) {
        const double scaled = (limbs != nullptr ? value_of(limbs) : 0) +
                              (updates != nullptr ? value_of(updates) * r.scale_of_updates() : 0);
        write_clip(std::sqrt(scaled), r, clip);
      });
}

void clip_gradient(const Context& ctx, std::int64_t elems, Stored grad, const double* coefficient) {
  if constexpr (kernel::rows_are_warps)
    return kernel::for_each_run(ctx, "shardmark::clip_gradient", elems, ClipRun{grad, coefficient});
  kernel::for_each_piece(
      ctx, "shardmark::clip_gradient", elems, grad, false,
      KOKKOS_LAMBDA(std::int64_t at, std::int64_t n, kernel::Results & results) {
        const auto factor = static_cast<float>(*coefficient);
        float widened[kernel::piece_elems], clipped[kernel::piece_elems];
        const float* g = kernel::widen_piece(grad.dtype, grad.data, at, n, widened);
        kernel::simd_loop(n, [&](std::int64_t j) { clipped[j] = g[j] * factor; });
        results.put(at, n, clipped);
      });
}

}  // namespace shardmark
