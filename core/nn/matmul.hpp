// SPDX-License-Identifier: Apache-2.0
// Matrix products behind one narrow class: oneDNN on the host. All scratch is the caller's, from
// the planned workspace, and capped: a product that needs more is an error, never a hidden
// allocation. Sums are fp32, whatever the operands are, and C is rounded once.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <core/nn/context.hpp>
#include <core/plan/types.hpp>

namespace shardmark {

/// How a product of bf16 operands is made: by the processor's own bf16 arithmetic, or in fp32, on
/// copies in scratch. Bits differ between the two (bf16 arithmetic may take denormals for zero).
enum class Bf16Products : std::uint8_t { native, widened };
std::string_view to_string(Bf16Products);

/// C[m][n] = op(A)[m][k] op(B)[k][n], row-major, `batch` of them. A leading dimension is the
/// distance of rows as stored; a stride that of one product's operand to the next one's.
struct MatMulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored [k][m]
  bool transpose_b = false;  // B is stored [n][k]
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;  // C += instead of C =
  bool bias = false;        // adds bias[n] to every row
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Dtype type = Dtype::fp32;    // of A, B and the bias: fp32, bf16 or fp16
  Dtype c_type = Dtype::fp32;  // the same, or fp32

  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(batch); }
  auto operator<=>(const MatMulShape&) const = default;
};

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
  void direct_part(const MatMulShape& part, bool packed, const void* a, const void* b, void* c,
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

/// "matrix product 64 x 768 x 768 (batch 1)", for messages.
std::string to_string(const MatMulShape& shape);

}  // namespace shardmark
