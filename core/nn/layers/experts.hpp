// SPDX-License-Identifier: Apache-2.0
// What a mixture of experts does around its products: it chooses the experts of each row, sorts the
// pairs of rows and experts by experts, and collects and combines rows. Sums are made in the order
// of a row's choices, so that results do not depend on threads. Shazeer et al., Outrageously Large
// Neural Networks, 2017; weights as in the routers of transformers 5.
#pragma once

#include <cstdint>

#include <core/nn/layers/activation.hpp>
#include <core/plan/deck/decoder.hpp>

namespace shardmark {

/// The arrays of a router. Pair p = row * per_token + choice.
struct Routes {
  std::int64_t rows, experts, per_token;
  float* probabilities;   // [rows][experts]
  float* weights;         // [pairs]
  std::int32_t* chosen;   // [pairs]: the expert of a pair
  std::int32_t* places;   // [pairs]: its place in the order of experts
  std::int32_t* sources;  // [pairs]: the pair at a place
  std::int32_t* starts;   // [experts + 1]: the first place of each expert, and the number of pairs

  std::int64_t pairs() const { return rows * per_token; }
};

/// Turns the logits in `probabilities` into the router's scores, which are probabilities or
/// sigmoids, and writes all other arrays. Of equal scores the first expert is chosen. If experts
/// are in groups, a row has those of the groups with the largest sums of two scores (DeepSeek-AI,
/// DeepSeek-V3, 2024).
void choose_experts(const Context& ctx, const MoeSpec& moe, const Routes& routes);

/// Computes the gradient of the logits from that of the weights and, unless it is null, from that
/// of the scores, which is the same for all rows. The choice of groups and experts has none.
void choose_experts_backward(const Context& ctx, const MoeSpec& moe, const Routes& routes,
                             const float* dweights, const float* dprobabilities, Stored dlogits);

/// The pairs that lie at `places` places, -1 where there is none.
struct PlacedPairs {
  const std::int32_t* sources;
  std::int64_t places, per_token;
};
/// rows[place] = x[row of the pair at that place], or zeros, in rows of `columns` elements. `label`
/// is that of the kernel.
void collect_pairs(const Context& ctx, const char* label, const PlacedPairs& pairs,
                   std::int64_t columns, ConstStored x, Stored rows);
/// The same for all pairs, sorted by experts.
void collect_rows(const Context& ctx, const Routes& routes, std::int64_t columns, ConstStored x,
                  Stored sorted);

/// y[row] (+)= the sum over the row's pairs of weight * sorted[place]; without weights a weight
/// is 1.
void combine_rows(const Context& ctx, const Routes& routes, std::int64_t columns,
                  const float* weights, ConstStored sorted, Stored y, bool add);

/// Backward of the weights, after the activation's, by the same rule: `act` and `dgate_up`, both
/// sorted, belong to the gradient of an expert's output without its weight. Writes dweights[pair],
/// the sum of up * dup as the rule sees up, drops dup where the rule cuts it, and multiplies the
/// rows of both arrays by their weights. `size` is that of gate_up, where up follows gate.
void weigh_pairs(const Context& ctx, const Routes& routes, const GatedRows& size,
                 const GateRule& rule, ConstStored gate_up, Stored act, Stored dgate_up,
                 float* dweights);

/// The same for a bias of the output, [experts][columns], after weigh_pairs: dweights[pair] += the
/// sum of bias * rows, and multiplies the rows of the gradient of the output by their weights.
void weigh_rows(const Context& ctx, const Routes& routes, std::int64_t columns, ConstStored bias,
                Stored rows, float* dweights);

/// The expert that all rows have, and the factor of its output: sigmoid(x weight^T).
struct SharedExpert {
  std::int64_t rows, columns;
  ConstStored x, weight, out;
  float* factor;  // [rows]
};

/// y = sum + factor * out; writes the factors.
void add_shared_expert(const Context& ctx, const SharedExpert& e, ConstStored sum, Stored y);

/// From dy computes the gradients of the factors' logits, of x (overwritten), of `out` and of the
/// weight.
void add_shared_expert_backward(const Context& ctx, const SharedExpert& e, ConstStored dy,
                                float* dlogits, Stored dx, Stored dout, Stored dweight,
                                bool accumulate);

}  // namespace shardmark
