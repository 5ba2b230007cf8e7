// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/kernel.hpp>
#include <core/nn/layers/balance_loss.hpp>

namespace shardmark {
namespace {

// The sum over layers: of rows of an expert (`part` 0), or of its probabilities (1).
KOKKOS_INLINE_FUNCTION double over_layers(const BalanceLoss& b, std::int64_t part, std::int64_t e) {
  double sum = 0;
  for (std::int64_t l = 0; l < b.layers; ++l)
    sum += static_cast<double>(b.sums[(2 * l + part) * b.experts + e]);
  return sum;
}

}  // namespace

void balance_sums(const Context& ctx, const Routes& routes, float* sums) {
  kernel::for_each(
      ctx, "shardmark::balance_sums", routes.experts, KOKKOS_LAMBDA(std::int64_t e) {
        double sum = 0;
        for (std::int64_t r = 0; r < routes.rows; ++r)
          sum += static_cast<double>(routes.probabilities[r * routes.experts + e]);
        sums[e] = static_cast<float>(routes.starts[e + 1] - routes.starts[e]);
        sums[routes.experts + e] = static_cast<float>(sum);
      });
}

void add_balance_loss(const Context& ctx, const BalanceLoss& balance, double* loss) {
  kernel::for_each(
      ctx, "shardmark::add_balance_loss", 1, KOKKOS_LAMBDA(std::int64_t) {
        double sum = 0;
        for (std::int64_t e = 0; e < balance.experts; ++e)
          sum += over_layers(balance, 0, e) * over_layers(balance, 1, e);
        *loss += balance.factor * sum;
      });
}

void balance_gradient(const Context& ctx, const BalanceLoss& balance, float scale,
                      float* dprobabilities) {
  kernel::for_each(
      ctx, "shardmark::balance_gradient", balance.experts, KOKKOS_LAMBDA(std::int64_t e) {
        dprobabilities[e] = static_cast<float>(scale * balance.factor * over_layers(balance, 0, e));
      });
}

}  // namespace shardmark
