// SPDX-License-Identifier: Apache-2.0
// The choice of bf16 products in GPU builds. There is only one way: tensor cores multiply bf16 and
// add in fp32.
#include <limits>

#include <core/nn/products/bf16_products.hpp>

namespace shardmark {

bool has_native_bf16(const Space&) {
  return true;
}

Bf16Speed measure_bf16(const Space&, std::int64_t) {
  return {0, std::numeric_limits<double>::infinity()};
}

}  // namespace shardmark
