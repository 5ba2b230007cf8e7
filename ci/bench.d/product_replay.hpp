// SPDX-License-Identifier: Apache-2.0
// Matrix products alone, for comparison with steps that contain them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <Kokkos_Core.hpp>

#include <core/kokkos_shim.hpp>
#include <core/nn/kernels/context.hpp>
#include <core/nn/products/matmul.hpp>

namespace shardmark::bench {

/// The bytes of an operand of a product.
inline std::int64_t bytes_of_operand(std::int64_t rows, std::int64_t ld, std::int64_t batch, std::int64_t stride,
                      Dtype type) {
  return ((batch - 1) * stride + rows * ld) * dtype_bytes(type);
}
inline std::int64_t a_bytes(const MatMulShape& s) {
  return bytes_of_operand(s.transpose_a ? s.k : s.m, s.lda, s.batch, s.stride_a, s.type);
}
inline std::int64_t b_bytes(const MatMulShape& s) {
  return bytes_of_operand(s.transpose_b ? s.n : s.k, s.ldb, s.batch, s.stride_b, s.type);
}
inline std::int64_t c_bytes(const MatMulShape& s) {
  return bytes_of_operand(s.m, s.ldc, s.batch, s.stride_c, s.c_type);
}

/// The products of a step, one after the other without anything between them. The largest operand of
/// a product (the weight, its gradient, or the logits) comes from memory; the smaller ones stay in the
/// caches.
class ProductReplay {
 public:
  ProductReplay(std::span<const MatMulShape> products, std::int64_t scratch_bytes)
      : products_(products.begin(), products.end()),
        scratch_("scratch", static_cast<std::size_t>(scratch_bytes)) {
    for (const MatMulShape& s : products_)
      for (std::int64_t bytes : {a_bytes(s), b_bytes(s), c_bytes(s)})
        largest_ = std::max(largest_, bytes);
    near_ = Bytes("near", static_cast<std::size_t>(4 * largest_));
    far_ = Bytes("far", static_cast<std::size_t>(std::max(far_bytes, 2 * largest_)));
    fill(near_);
    fill(far_);
  }

  void run(const Context& context) {
    for (const MatMulShape& s : products_) {
      const std::int64_t a = a_bytes(s), b = b_bytes(s), c = c_bytes(s);
      const std::int64_t most = std::max({a, b, c});
      std::byte* from_memory = next(most);
      std::byte* near = near_.data();
      context.matmul(context.space, s, a == most ? from_memory : near,
                     b == most && a != most ? from_memory : near + largest_,
                     c == most && a != most && b != most ? from_memory : near + 2 * largest_,
                     near + 3 * largest_, {scratch_.data(), scratch_.size()});
    }
    fence(context.space, "bench_products: the host's clock is read next");
  }

  double flops() const {
    double sum = 0;
    for (const MatMulShape& s : products_) sum += s.flops();
    return sum;
  }

 private:
  using Bytes = Kokkos::View<std::byte*, Space::memory_space>;
  static constexpr std::int64_t far_bytes = std::int64_t{1} << 30;

  // About 1/1024 in every type, so that sums neither overflow nor become denormal.
  static void fill(const Bytes& bytes) { Kokkos::deep_copy(bytes, std::byte{0x3a}); }

  std::byte* next(std::int64_t bytes) {
    if (at_ + bytes > static_cast<std::int64_t>(far_.size())) at_ = 0;
    std::byte* here = far_.data() + at_;
    at_ += (bytes + 4095) / 4096 * 4096;
    return here;
  }

  std::vector<MatMulShape> products_;
  Bytes scratch_;
  std::int64_t largest_ = 0, at_ = 0;
  Bytes near_, far_;
};

}  // namespace shardmark::bench
