// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <core/nn/matmul_shape.hpp>

namespace shardmark {

std::string to_string(const MatMulShape& s) {
  return fmt::format("matrix product {} x {} x {} (batch {})", s.m, s.n, s.k, s.batch);
}

std::string_view to_string(Bf16Products products) {
  return products == Bf16Products::native ? "native" : "widened";
}

}  // namespace shardmark
