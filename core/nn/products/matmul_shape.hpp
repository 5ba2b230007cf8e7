// SPDX-License-Identifier: Apache-2.0
// The description of a matrix product, independent of the library that computes it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// How a product of bf16 operands is computed: with the processor's own bf16 arithmetic, or in fp32
/// on copies in scratch. The bits of the results differ (bf16 arithmetic may treat denormals as
/// zero).
enum class Bf16Products : std::uint8_t { native, widened };
std::string_view to_string(Bf16Products);

/// C[m][n] = op(A)[m][k] op(B)[k][n], row-major, `batch` times. A leading dimension is the distance
/// in elements between rows as stored. A stride is the distance between the operands of consecutive
/// products of the batch.
struct MatMulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored [k][m]
  bool transpose_b = false;  // B is stored [n][k]
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;  // C += instead of C =
  bool bias = false;        // adds bias[n] to every row
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Dtype type = Dtype::fp32;    // of A, B and the bias: fp32, bf16 or fp16
  Dtype c_type = Dtype::fp32;  // the type of the operands, or fp32

  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(batch); }
  auto operator<=>(const MatMulShape&) const = default;
};

/// Throws PlanError if C has a type that such operands cannot give with any library.
void require_result_type(const MatMulShape& shape);

/// Returns "matrix product 64 x 768 x 768 (batch 1)", for messages.
std::string to_string(const MatMulShape& shape);

}  // namespace shardmark
