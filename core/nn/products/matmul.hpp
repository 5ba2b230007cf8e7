// SPDX-License-Identifier: Apache-2.0
// Matrix products behind one small class: oneDNN on the host, cuBLASLt on a GPU. The caller
// provides all scratch, from the planned workspace, and the scratch is capped: a product that needs
// more is an error, never a hidden allocation. Sums are fp32, whatever the type of the operands,
// and C is rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <core/nn/kernels/context.hpp>
#include <core/nn/products/matmul_shape.hpp>

namespace shardmark {

enum class ProductMethod : std::uint8_t;

/// Prepares a primitive for each shape at its first use and keeps it, a host the last 512. Not
/// thread-safe; local.
class MatMul {
 public:
  /// A product may use at most `scratch_cap_bytes` of its caller's scratch.
  explicit MatMul(std::int64_t scratch_cap_bytes, Bf16Products bf16 = Bf16Products::widened);
  ~MatMul();
  MatMul(const MatMul&) = delete;
  MatMul& operator=(const MatMul&) = delete;

  /// Runs the product after the work on `space`. `bias` is read only if the shape has a bias.
  /// Throws MemoryError, with shape and bytes, if the cap or `scratch` is too small, and PlanError
  /// if the library has no such product. A product that accumulates adds what C has, or the matrix
  /// `added` of C's shape and type, which only products with adds_elsewhere() can.
  void operator()(const Space& space, const MatMulShape& shape, const void* a, const void* b,
                  void* c, const void* bias, std::span<std::byte> scratch,
                  const void* added = nullptr);

  /// True on a GPU, whose library reads and writes different matrices in one product.
  static bool adds_elsewhere();

  Bf16Products bf16_products() const { return bf16_; }

  /// The time inside products since the start, in nanoseconds. It includes packing but not the
  /// preparation of primitives. On a GPU this is the stream's time, and the call waits for it.
  std::int64_t matmul_ns() const;
  /// The time that the preparation of primitives took, in nanoseconds.
  std::int64_t prepare_ns() const { return prepare_ns_; }
  std::int64_t calls() const { return calls_; }
  double flops() const { return flops_; }

  /// Turns recording on or off. While it is on, the shape of every product is recorded, and its
  /// time in nanoseconds, as in matmul_ns(); on a GPU the host waits for each product meanwhile.
  void record(bool on) { recording_ = on; }
  std::span<const MatMulShape> recorded() const { return recorded_; }
  std::span<const std::int64_t> recorded_ns() const { return recorded_ns_; }
  /// Forgets what was recorded.
  void clear_recorded() {
    recorded_.clear();
    recorded_ns_.clear();
  }

 private:
  struct Impl;
  // `direct` calls the library in the operands' own type, piece by piece; `widened` multiplies fp32
  // copies of pieces.
  void direct(const MatMulShape& shape, const void* a, const void* b, void* c, const void* bias,
              std::span<std::byte> scratch);
  void direct_part(const MatMulShape& part, ProductMethod method, const void* a, const void* b,
                   void* c, const void* bias, std::span<std::byte> scratch);
  void widened(const Space& space, const MatMulShape& shape, const void* a, const void* b, void* c,
               const void* bias, std::span<std::byte> scratch);

  std::unique_ptr<Impl> impl_;
  Bf16Products bf16_;
  std::int64_t matmul_ns_ = 0, prepare_ns_ = 0, calls_ = 0;
  double flops_ = 0;
  bool recording_ = false;
  std::vector<MatMulShape> recorded_;
  std::vector<std::int64_t> recorded_ns_;
};

}  // namespace shardmark
