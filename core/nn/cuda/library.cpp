// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <cublasLt.h>

#include <core/nn/products/library.hpp>

namespace shardmark {

std::string matmul_library() {
  const std::size_t v = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

}  // namespace shardmark
