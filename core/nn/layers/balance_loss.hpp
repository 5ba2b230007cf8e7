// SPDX-License-Identifier: Apache-2.0
// The loss that balances experts (Fedus et al., Switch Transformers, 2021, equations 4 to 6), as
// transformers 5 computes it over all layers at once: with N rows in all layers together, n_e of
// them sent to expert e of E and probabilities of e that add up to p_e, it is E * sum of n_e p_e /
// N^2, times a factor.
#pragma once

#include <core/nn/layers/experts.hpp>

namespace shardmark {

/// The sums of all layers that have experts: [layers][2][experts], n_e and then p_e.
struct BalanceLoss {
  const float* sums;
  std::int64_t layers, experts;
  double factor;  // E / N^2 and the factor of the loss
};

/// Writes the sums of one layer, [2][experts], once its experts are chosen.
void balance_sums(const Context& ctx, const Routes& routes, float* sums);

/// *loss += the loss of these sums.
void add_balance_loss(const Context& ctx, const BalanceLoss& balance, double* loss);

/// Writes the gradient of the probability of each expert, which is that of every row, times
/// `scale`.
void balance_gradient(const Context& ctx, const BalanceLoss& balance, float scale,
                      float* dprobabilities);

}  // namespace shardmark
