// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit operands in fp32. Pieces of A and B are widened into panels of scratch that
// stay in a core's second-level cache, and multiplied there; C is rounded when its sum is complete.
// Each element of B is widened once per `c_rows` rows of C, and each element of A once per panel of
// B, so that the copies cost little compared with the arithmetic.
#include <algorithm>

#include <fmt/core.h>

#include <core/cache_line.hpp>
#include <core/error.hpp>
#include <core/nn/kernels/kernel.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t line_elems = cache_line_bytes / std::int64_t{sizeof(float)};

std::int64_t round_up_to(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The extents of the pieces in the panels. The panel of A is [a_rows][k] or its transpose, that of
// B is [k][n] or its transpose, and that of C is [c_rows][n]. The rows of a panel are separated by
// one unused line.
struct Panels {
  std::int64_t a_rows, c_rows, n, k;

  explicit Panels(const MatMulShape& s) {
    constexpr std::int64_t operand_elems = std::int64_t{1} << 18;  // 1 MiB
    constexpr std::int64_t sum_elems = std::int64_t{1} << 20;
    k = std::min<std::int64_t>(s.k, 1024);
    n = std::min({s.n, std::int64_t{4096}, operand_elems / k / line_elems * line_elems});
    a_rows = std::min<std::int64_t>(s.m, 256);
    c_rows = std::min(s.m, sum_elems / ld(n));
  }
  static std::int64_t ld(std::int64_t cols) { return round_up_to(cols, line_elems) + line_elems; }
  // The number of elements that suffices for a panel in either orientation.
  static std::int64_t elems(std::int64_t rows, std::int64_t cols) {
    return std::max(rows * ld(cols), cols * ld(rows));
  }
  std::int64_t a_elems() const { return round_up_to(elems(a_rows, k), line_elems); }
  std::int64_t b_elems() const { return round_up_to(elems(k, n), line_elems); }
  std::int64_t c_elems(Dtype c_type) const { return c_type == Dtype::fp32 ? 0 : c_rows * ld(n); }
};

std::int64_t panel_elems(const MatMulShape& s) {
  const Panels p(s);
  return p.a_elems() + p.b_elems() + Panels::ld(p.n) + p.c_elems(s.c_type);
}

template<class T>
void widen_rows(const Space& space, std::int64_t rows, std::int64_t cols, const T* from,
                std::int64_t ld_from, float* to, std::int64_t ld_to) {
  Kokkos::parallel_for(
      "shardmark::widen", kernel::Range(space, 0, rows), KOKKOS_LAMBDA(std::int64_t r) {
        const T* in = from + r * ld_from;
        float* out = to + r * ld_to;
        kernel::simd_loop(cols, [&](std::int64_t j) { out[j] = widen(in[j]); });
      });
}

// c = sums, or c += sums.
template<class T>
void round_rows(const Space& space, std::int64_t rows, std::int64_t cols, const float* sums,
                std::int64_t ld_sums, bool add, T* c, std::int64_t ldc) {
  Kokkos::parallel_for(
      "shardmark::round", kernel::Range(space, 0, rows), KOKKOS_LAMBDA(std::int64_t r) {
        const float* in = sums + r * ld_sums;
        T* out = c + r * ldc;
        if (add)
          kernel::simd_loop(cols, [&](std::int64_t j) { round_to(out[j], widen(out[j]) + in[j]); });
        else
          kernel::simd_loop(cols, [&](std::int64_t j) { round_to(out[j], in[j]); });
      });
}

// One product of a batch, with operands of type T. `multiply` computes fp32 products.
template<class T, class F>
class Widened {
 public:
  Widened(const Space& space, const MatMulShape& shape, float* panels, const F& multiply)
      : space_(space), s_(shape), size_(shape), multiply_(multiply) {
    a_panel_ = panels;
    b_panel_ = a_panel_ + size_.a_elems();
    bias_panel_ = b_panel_ + size_.b_elems();
    c_panel_ = bias_panel_ + Panels::ld(size_.n);
  }
  void run(const T* a, const T* b, void* c, const T* bias) const {
    for (std::int64_t m0 = 0; m0 < s_.m; m0 += size_.c_rows)
      for (std::int64_t n0 = 0; n0 < s_.n; n0 += size_.n) {
        const std::int64_t m = std::min(size_.c_rows, s_.m - m0), n = std::min(size_.n, s_.n - n0);
        const T* a_rows = a + (s_.transpose_a ? m0 : m0 * s_.lda);
        const T* b_cols = b + (s_.transpose_b ? n0 * s_.ldb : n0);
        if (s_.bias) widen_rows(space_, 1, n, bias + n0, n, bias_panel_, n);
        const std::int64_t at = m0 * s_.ldc + n0;
        if (s_.c_type == Dtype::fp32) {
          sum(m, n, a_rows, b_cols, static_cast<float*>(c) + at, s_.ldc, s_.accumulate);
        } else {
          sum(m, n, a_rows, b_cols, c_panel_, Panels::ld(n), false);
          round_rows(space_, m, n, c_panel_, Panels::ld(n), s_.accumulate, static_cast<T*>(c) + at,
                     s_.ldc);
        }
      }
  }

 private:
  // to[m][n] (+)= op(A) op(B), summed over all of k.
  void sum(std::int64_t m, std::int64_t n, const T* a, const T* b, float* to, std::int64_t ld,
           bool accumulate) const {
    for (std::int64_t k0 = 0; k0 < s_.k; k0 += size_.k) {
      const std::int64_t k = std::min(size_.k, s_.k - k0);
      const std::int64_t ldb = s_.transpose_b ? Panels::ld(k) : Panels::ld(n);
      if (s_.transpose_b)
        widen_rows(space_, n, k, b + k0, s_.ldb, b_panel_, ldb);
      else
        widen_rows(space_, k, n, b + k0 * s_.ldb, s_.ldb, b_panel_, ldb);
      for (std::int64_t i0 = 0; i0 < m; i0 += size_.a_rows) {
        const std::int64_t rows = std::min(size_.a_rows, m - i0);
        const std::int64_t lda = s_.transpose_a ? Panels::ld(rows) : Panels::ld(k);
        if (s_.transpose_a)
          widen_rows(space_, k, rows, a + k0 * s_.lda + i0, s_.lda, a_panel_, lda);
        else
          widen_rows(space_, rows, k, a + i0 * s_.lda + k0, s_.lda, a_panel_, lda);
        multiply_({rows, n, k, s_.transpose_a, s_.transpose_b, lda, ldb, ld, accumulate || k0 > 0,
                   s_.bias && k0 == 0},
                  a_panel_, b_panel_, to + i0 * ld, bias_panel_);
      }
    }
  }

  const Space& space_;
  const MatMulShape& s_;
  const Panels size_;
  const F& multiply_;
  float *a_panel_, *b_panel_, *bias_panel_, *c_panel_;
};

}  // namespace

void MatMul::widened(const Space& space, const MatMulShape& shape, const void* a, const void* b,
                     void* c, const void* bias, std::span<std::byte> scratch) {
  constexpr auto line_bytes = static_cast<std::size_t>(cache_line_bytes);
  const auto base = reinterpret_cast<std::uintptr_t>(scratch.data());
  const std::size_t gap = (line_bytes - base % line_bytes) % line_bytes;
  const std::size_t panels = gap + static_cast<std::size_t>(panel_elems(shape)) * sizeof(float);
  if (scratch.size() < panels)
    throw MemoryError(
        fmt::format("{}: needs {} bytes of scratch for operands as fp32: the workspace has {}: "
                    "size it with workspace_bytes",
                    to_string(shape), panels, scratch.size()));
  const auto multiply = [&](const MatMulShape& s, const float* x, const float* y, float* z,
                            const float* row) { direct(s, x, y, z, row, scratch.subspan(panels)); };
  with_storage(shape.type, [&](auto type) {
    using T = decltype(type);
    const Widened<T, decltype(multiply)> one(
        space, shape, reinterpret_cast<float*>(scratch.data() + gap), multiply);
    const std::int64_t c_size = dtype_bytes(shape.c_type);
    for (std::int64_t i = 0; i < shape.batch; ++i)
      one.run(static_cast<const T*>(a) + i * shape.stride_a,
              static_cast<const T*>(b) + i * shape.stride_b,
              static_cast<std::byte*>(c) + i * shape.stride_c * c_size,
              static_cast<const T*>(bias));
  });
}

}  // namespace shardmark
