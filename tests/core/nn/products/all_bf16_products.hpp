// SPDX-License-Identifier: Apache-2.0
// Every way in which this build computes bf16 products. GPU code, which the tests run on the host,
// has only one way.
#pragma once

#include <vector>

#include <core/nn/products/bf16_products.hpp>

namespace shardmark::test {

#if defined(SHARDMARK_TEST_ON_A_GPU) || defined(KOKKOS_ENABLE_CUDA)
inline constexpr bool on_a_gpu = true;
#else
inline constexpr bool on_a_gpu = false;
#endif

inline std::vector<Bf16Products> all_bf16_products() {
  std::vector<Bf16Products> list{Bf16Products::widened};
  if (!on_a_gpu && has_native_bf16(Space())) list.push_back(Bf16Products::native);
  return list;
}

}  // namespace shardmark::test
