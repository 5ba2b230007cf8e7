// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/nn/products/matmul_shape.hpp>

namespace shardmark {

void require_result_type(const MatMulShape& shape) {
  if (shape.c_type != shape.type && shape.c_type != Dtype::fp32)
    throw PlanError(fmt::format(
        "{}: operands of type {} with C of type {}: C must have the type of the operands or fp32",
        to_string(shape), to_string(shape.type), to_string(shape.c_type)));
}

std::string to_string(const MatMulShape& s) {
  return fmt::format("matrix product {} x {} x {} (batch {})", s.m, s.n, s.k, s.batch);
}

std::string_view to_string(Bf16Products products) {
  return products == Bf16Products::native ? "native" : "widened";
}

}  // namespace shardmark
