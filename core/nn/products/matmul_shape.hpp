// SPDX-License-Identifier: Apache-2.0
// What a matrix product is, whichever library makes it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include <core/plan/deck/types.hpp>

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

/// Throws PlanError where C's type is none that such operands may give, whichever library makes it.
void require_result_type(const MatMulShape& shape);

/// "matrix product 64 x 768 x 768 (batch 1)", for messages.
std::string to_string(const MatMulShape& shape);

}  // namespace shardmark
