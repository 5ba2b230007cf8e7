// SPDX-License-Identifier: Apache-2.0
// Matrix products behind one narrow class: oneDNN on the host, cuBLASLt on a GPU. All scratch is
// the caller's, from the planned workspace, and capped: a product that needs more is an error,
// never a hidden allocation. Sums are fp32, whatever the operands are, and C is rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <core/nn/kernels/context.hpp>
#include <core/nn/products/matmul_shape.hpp>

namespace shardmark {

enum class Way : std::uint8_t;

/// Prepares a primitive for each shape at its first use and keeps it. Not thread-safe.
class MatMul {
 public:
  /// No product may use more than `scratch_cap_bytes` of its caller's scratch.
  explicit MatMul(std::int64_t scratch_cap_bytes, Bf16Products bf16 = Bf16Products::widened);
  ~MatMul();
  MatMul(const MatMul&) = delete;
  MatMul& operator=(const MatMul&) = delete;

  /// Runs the product after the work on `space`. `bias` is read only where the shape has one.
  /// Throws MemoryError, naming shape and bytes, where the cap or `scratch` is too small.
  void operator()(const Space& space, const MatMulShape& shape, const void* a, const void* b,
                  void* c, const void* bias, std::span<std::byte> scratch);

  Bf16Products bf16_products() const { return bf16_; }

  /// Time inside products since the start, packing included; preparing primitives is not.
  std::int64_t matmul_ns() const { return matmul_ns_; }
  /// Time that preparing primitives took.
  std::int64_t prepare_ns() const { return prepare_ns_; }
  std::int64_t calls() const { return calls_; }
  double flops() const { return flops_; }

  /// From now on the shapes are remembered, call by call.
  void record(bool on) { recording_ = on; }
  std::span<const MatMulShape> recorded() const { return recorded_; }

 private:
  struct Impl;
  // By the library, in the operands' own type; and by it in fp32, on widened copies of pieces.
  void direct(const MatMulShape& shape, const void* a, const void* b, void* c, const void* bias,
              std::span<std::byte> scratch);
  void direct_part(const MatMulShape& part, Way way, const void* a, const void* b, void* c,
                   const void* bias, std::span<std::byte> scratch);
  void widened(const Space& space, const MatMulShape& shape, const void* a, const void* b, void* c,
               const void* bias, std::span<std::byte> scratch);

  std::unique_ptr<Impl> impl_;
  Bf16Products bf16_;
  std::int64_t matmul_ns_ = 0, prepare_ns_ = 0, calls_ = 0;
  double flops_ = 0;
  bool recording_ = false;
  std::vector<MatMulShape> recorded_;
};

}  // namespace shardmark
