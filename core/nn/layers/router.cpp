// SPDX-License-Identifier: Apache-2.0
// The router of a mixture: the choice of experts, its gradient, and the order of pairs.
#include <cmath>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/layers/experts.hpp>

namespace shardmark {
namespace {

// How a router makes scores and weights of logits.
struct RouterRule {
  bool normalised, sigmoid, balanced;
  std::int64_t groups, token_groups;
  float factor;

  explicit RouterRule(const MoeSpec& moe)
      : normalised(moe.normalised),
        sigmoid(moe.scores == Scores::sigmoid),
        balanced(moe.routing == Routing::balanced),
        groups(moe.groups),
        token_groups(moe.token_groups),
        factor(static_cast<float>(moe.factor)) {}
};

// The work of one row of a router, by one thread.
struct Choice {
  Routes to;
  RouterRule rule;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r) const {
    float* logits = to.probabilities + r * to.experts;
    std::int32_t* chosen = to.chosen + r * to.per_token;
    float* weights = to.weights + r * to.per_token;
    if (rule.sigmoid) score(logits);
    for (std::int64_t j = 0; j < to.per_token; ++j)
      chosen[j] = rule.balanced ? static_cast<std::int32_t>((r * to.per_token + j) % to.experts)
                                : largest(logits, chosen, j);
    if (rule.sigmoid)
      weigh_scores(logits, chosen, weights);
    else
      weigh_logits(logits, chosen, weights);
    for (std::int64_t j = 0; j < to.per_token; ++j) weights[j] *= rule.factor;
  }
  KOKKOS_INLINE_FUNCTION void weigh_logits(float* logits, const std::int32_t* chosen,
                                           float* weights) const {
    if (rule.normalised) softmax_of_chosen(logits, chosen, weights);
    softmax(logits);
    for (std::int64_t j = 0; !rule.normalised && j < to.per_token; ++j)
      weights[j] = logits[chosen[j]];
  }
  // A score is positive. The experts of groups that the row does not have are marked by its sign.
  KOKKOS_INLINE_FUNCTION void score(float* scores) const {
    const bool in_groups = rule.token_groups < rule.groups && !rule.balanced;
    for (std::int64_t e = 0; e < to.experts; ++e) {
      const float value = logistic_f32(scores[e]).value;
      scores[e] = in_groups ? -value : value;
    }
    const std::int64_t size = to.experts / rule.groups;
    for (std::int64_t n = 0; in_groups && n < rule.token_groups; ++n) {
      std::int64_t best = -1;
      for (std::int64_t g = 0; g < rule.groups; ++g) {
        const bool taken = scores[g * size] > 0;
        if (!taken && (best < 0 || two_largest(scores, g) > two_largest(scores, best))) best = g;
      }
      for (std::int64_t e = best * size; e < (best + 1) * size; ++e) scores[e] = -scores[e];
    }
  }
  // The sum of the two largest scores of a marked group.
  KOKKOS_INLINE_FUNCTION float two_largest(const float* scores, std::int64_t group) const {
    const std::int64_t size = to.experts / rule.groups;
    float first = 0, second = 0;
    for (std::int64_t e = group * size; e < (group + 1) * size; ++e) {
      const float value = -scores[e];
      second = value > first ? first : value > second ? value : second;
      first = value > first ? value : first;
    }
    return first + second;
  }
  KOKKOS_INLINE_FUNCTION void weigh_scores(float* scores, const std::int32_t* chosen,
                                           float* weights) const {
    for (std::int64_t e = 0; e < to.experts; ++e) scores[e] = std::fabs(scores[e]);
    float sum = 0;
    for (std::int64_t j = 0; j < to.per_token; ++j) sum += weights[j] = scores[chosen[j]];
    for (std::int64_t j = 0; rule.normalised && j < to.per_token; ++j) weights[j] /= sum + 1e-20f;
  }
  // The expert with the largest score that is not yet among the first `count` choices.
  KOKKOS_INLINE_FUNCTION std::int32_t largest(const float* logits, const std::int32_t* chosen,
                                              std::int64_t count) const {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < to.experts; ++e) {
      bool taken = false;
      for (std::int64_t j = 0; j < count; ++j) taken = taken || chosen[j] == e;
      if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
    }
    return static_cast<std::int32_t>(best);
  }
  KOKKOS_INLINE_FUNCTION void softmax_of_chosen(const float* logits, const std::int32_t* chosen,
                                                float* weights) const {
    float top = logits[chosen[0]], sum = 0;
    for (std::int64_t j = 1; j < to.per_token; ++j)
      top = logits[chosen[j]] > top ? logits[chosen[j]] : top;
    for (std::int64_t j = 0; j < to.per_token; ++j)
      sum += weights[j] = exp_f32(logits[chosen[j]] - top);
    for (std::int64_t j = 0; j < to.per_token; ++j) weights[j] /= sum;
  }
  KOKKOS_INLINE_FUNCTION void softmax(float* logits) const {
    float top = logits[0], sum = 0;
    for (std::int64_t e = 1; e < to.experts; ++e) top = logits[e] > top ? logits[e] : top;
    for (std::int64_t e = 0; e < to.experts; ++e) sum += logits[e] = exp_f32(logits[e] - top);
    for (std::int64_t e = 0; e < to.experts; ++e) logits[e] /= sum;
  }
};

// Sorts pairs by experts. Each expert reads all pairs, so that no thread waits for another and the
// order of pairs stays that of rows.
void sort_pairs(const Context& ctx, const Routes& to) {
  const std::int64_t pairs = to.pairs(), experts = to.experts;
  kernel::for_each(
      ctx, "shardmark::count_pairs", experts, KOKKOS_LAMBDA(std::int64_t e) {
        std::int32_t count = 0;
        for (std::int64_t p = 0; p < pairs; ++p) count += to.chosen[p] == e ? 1 : 0;
        to.starts[e + 1] = count;
      });
  kernel::for_each(
      ctx, "shardmark::start_experts", 1, KOKKOS_LAMBDA(std::int64_t) {
        to.starts[0] = 0;
        for (std::int64_t e = 0; e < experts; ++e) to.starts[e + 1] += to.starts[e];
      });
  kernel::for_each(
      ctx, "shardmark::place_pairs", experts, KOKKOS_LAMBDA(std::int64_t e) {
        std::int32_t place = to.starts[e];
        for (std::int64_t p = 0; p < pairs; ++p)
          if (to.chosen[p] == e) {
            to.places[p] = place;
            to.sources[place++] = static_cast<std::int32_t>(p);
          }
      });
}

// One row of a router in backward: its scores, the weights of its chosen experts and their
// gradients, and the gradients of its logits, which it writes.
template<class T>
struct RowGradient {
  const std::int32_t* chosen;
  const float *weights, *dweights, *scores;
  T* dlogits;

  KOKKOS_INLINE_FUNCTION RowGradient(const Routes& of, std::int64_t r, const float* all_dweights,
                                     T* all_dlogits)
      : chosen(of.chosen + r * of.per_token),
        weights(of.weights + r * of.per_token),
        dweights(all_dweights + r * of.per_token),
        scores(of.probabilities + r * of.experts),
        dlogits(all_dlogits + r * of.experts) {}
  // The sum of w dw over the chosen experts.
  KOKKOS_INLINE_FUNCTION float mean(std::int64_t per_token) const {
    float sum = 0;
    for (std::int64_t j = 0; j < per_token; ++j) sum += weights[j] * dweights[j];
    return sum;
  }
};

// With weights w, before their factor, and probabilities p of the chosen experts: normalised, the
// gradient of a chosen logit is w (dw - sum w dw), and otherwise that of any logit is p (dw - sum p
// dw), where dw is 0 for the others. A gradient dp of the probabilities adds p (dp - sum p dp).
template<class T>
KOKKOS_INLINE_FUNCTION void probabilities_backward(const RouterRule& rule, const Routes& of,
                                                   const RowGradient<T>& row,
                                                   const float* dprobabilities) {
  const float *p = row.scores, mean = row.mean(of.per_token);
  float mean_of_all = 0;
  for (std::int64_t e = 0; dprobabilities != nullptr && e < of.experts; ++e)
    mean_of_all += p[e] * dprobabilities[e];
  const auto of_probability = [&](std::int64_t e) {
    return dprobabilities != nullptr ? p[e] * (dprobabilities[e] - mean_of_all) : 0.0f;
  };
  for (std::int64_t e = 0; e < of.experts; ++e)
    round_to(row.dlogits[e], (rule.normalised ? 0.0f : -p[e] * mean) + of_probability(e));
  for (std::int64_t j = 0; j < of.per_token; ++j)
    round_to(row.dlogits[row.chosen[j]],
             row.weights[j] / rule.factor * (rule.factor * row.dweights[j] - mean) +
                 of_probability(row.chosen[j]));
}

// With scores s, which are sigmoids: the gradient of a chosen logit is w (1 - s) (dw - sum w dw),
// without the sum if weights are not normalised. A gradient ds of the scores adds s (1 - s) ds.
template<class T>
KOKKOS_INLINE_FUNCTION void scores_backward(const RouterRule& rule, const Routes& of,
                                            const RowGradient<T>& row, const float* dscores) {
  const float *s = row.scores, mean = rule.normalised ? row.mean(of.per_token) : 0.0f;
  const auto of_score = [&](std::int64_t e) {
    return dscores != nullptr ? s[e] * (1 - s[e]) * dscores[e] : 0.0f;
  };
  for (std::int64_t e = 0; e < of.experts; ++e) round_to(row.dlogits[e], of_score(e));
  for (std::int64_t j = 0; j < of.per_token; ++j) {
    const std::int32_t e = row.chosen[j];
    const float weight = row.weights[j] / rule.factor;
    round_to(row.dlogits[e],
             weight * (1 - s[e]) * (rule.factor * row.dweights[j] - mean) + of_score(e));
  }
}

template<class T>
void choose_backward(const Context& ctx, const RouterRule& rule, const Routes& of,
                     const float* dweights, const float* dprobabilities, T* dlogits) {
  kernel::for_each(
      ctx, "shardmark::choose_experts_backward", of.rows, KOKKOS_LAMBDA(std::int64_t r) {
        const RowGradient<T> row(of, r, dweights, dlogits);
        if (rule.sigmoid)
          scores_backward(rule, of, row, dprobabilities);
        else
          probabilities_backward(rule, of, row, dprobabilities);
      });
}

}  // namespace

void choose_experts(const Context& ctx, const MoeSpec& moe, const Routes& routes) {
  kernel::for_each(ctx, "shardmark::choose_experts", routes.rows, Choice{routes, RouterRule(moe)});
  sort_pairs(ctx, routes);
}

void choose_experts_backward(const Context& ctx, const MoeSpec& moe, const Routes& routes,
                             const float* dweights, const float* dprobabilities, Stored dlogits) {
  with_elements(
      [&](auto*... data) {
        choose_backward(ctx, RouterRule(moe), routes, dweights, dprobabilities, data...);
      },
      dlogits);
}

}  // namespace shardmark
