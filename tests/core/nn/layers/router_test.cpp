// SPDX-License-Identifier: Apache-2.0
// Rules of a router whose scores are sigmoids: a row has the groups of experts with the largest
// sums of two scores, and of those the experts with the largest ones; values and gradients of
// weights are those of a plain loop in double.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <tests/core/nn/layers/router_fixture.hpp>

namespace shardmark::test::router_test {
namespace {

constexpr std::int64_t rows = 13;

// Six experts in three groups, of which a row has one or two, with scores that are sigmoids.
struct GroupedExperts : RouterTest {
  static constexpr std::int64_t all = 6, group = 2;
  GroupedExperts() : RouterTest(rows, all, 2) {}

  MoeSpec spec(std::int64_t token_groups, bool normalised, double factor = 1.5) const {
    MoeSpec m;
    m.experts = all, m.per_token = 2, m.ffn = 4, m.normalised = normalised, m.factor = factor;
    m.scores = Scores::sigmoid, m.groups = 3, m.token_groups = token_groups;
    return m;
  }
  void choose(const MoeSpec& m) {
    for (std::int64_t i = 0; i < rows * all; ++i) scores[i] = logits[i];
    choose_experts(ctx, m, routes());
  }
  double logit(std::int64_t row, std::int64_t e) const { return logits[row * all + e]; }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  // The weights of a row's experts after `step` was added to the logit of expert `by`.
  std::vector<double> weights_of(const MoeSpec& m, std::int64_t row, std::int64_t by,
                                 double step) const {
    std::vector<double> w;
    double sum = 0;
    for (std::int64_t j = 0; j < 2; ++j) {
      const std::int64_t e = chosen[row * 2 + j];
      w.push_back(sigmoid(logit(row, e) + (e == by ? step : 0)));
      sum += w.back();
    }
    for (double& v : w) v *= m.factor / (m.normalised ? sum : 1);
    return w;
  }
  // The experts that a row may have: those of its best groups.
  std::set<std::int64_t> allowed(std::int64_t row, std::int64_t token_groups) const {
    std::vector<std::pair<double, std::int64_t>> of_groups;
    for (std::int64_t g = 0; g < all / group; ++g)
      of_groups.emplace_back(-sigmoid(logit(row, g * group)) - sigmoid(logit(row, g * group + 1)),
                             g);
    std::sort(of_groups.begin(), of_groups.end());
    std::set<std::int64_t> experts_of_row;
    for (std::int64_t n = 0; n < token_groups; ++n)
      for (std::int64_t j = 0; j < group; ++j)
        experts_of_row.insert(of_groups[static_cast<std::size_t>(n)].second * group + j);
    return experts_of_row;
  }

  Buffer<float> logits = filled(rows * all, 1);
  Buffer<float>& scores = probabilities;
};

TEST_F(GroupedExperts, are_the_best_of_the_groups_with_the_largest_sums_of_two) {
  int elsewhere = 0;  // rows whose best expert is in another group
  for (const std::int64_t token_groups : {1, 2, 3}) {
    const MoeSpec m = spec(token_groups, false);
    choose(m);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::vector<std::pair<double, std::int64_t>> best;
      for (const std::int64_t e : allowed(r, token_groups)) best.emplace_back(-logit(r, e), e);
      std::sort(best.begin(), best.end());
      for (std::int64_t j = 0; j < 2; ++j)
        EXPECT_EQ(chosen[r * 2 + j], best[static_cast<std::size_t>(j)].second) << token_groups;
      for (std::int64_t e = 0; e < all; ++e) {
        EXPECT_NEAR(scores[r * all + e], sigmoid(logit(r, e)), 1e-6);
        elsewhere += logit(r, e) > -best[0].first;
      }
    }
  }
  EXPECT_GT(elsewhere, 0);
}

TEST_F(GroupedExperts, have_weights_whose_gradients_agree_with_difference_quotients) {
  const auto dweights = filled(rows * 2, 7);
  Buffer<float> dlogits(rows * all);
  for (const bool normalised : {false, true}) {
    const MoeSpec m = spec(2, normalised);
    choose(m);
    choose_experts_backward(ctx, m, routes(), dweights.data(), nullptr, dlogits.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<double> want = weights_of(m, r, 0, 0);
      for (std::size_t j = 0; j < 2; ++j)
        EXPECT_NEAR(weights[r * 2 + std::int64_t(j)], want[j], 1e-6);
      for (std::int64_t e = 0; e < all; ++e) {
        const auto value = [&](double step) {
          const std::vector<double> w = weights_of(m, r, e, step);
          return w[0] * dweights[r * 2] + w[1] * dweights[r * 2 + 1];
        };
        const double h = 1e-5;
        EXPECT_NEAR(dlogits[r * all + e], (value(h) - value(-h)) / (2 * h), 2e-6);
      }
    }
  }
}

// The score of an expert is never 0, so that its sign can say whether a row has its group.
TEST_F(GroupedExperts, are_chosen_by_scores_that_are_too_small_to_differ_from_0) {
  for (std::int64_t i = 0; i < rows * all; ++i) logits[i] = -300;
  choose(spec(1, true));
  for (std::int64_t p = 0; p < rows * 2; ++p) EXPECT_EQ(chosen[p], p % 2);
}

}  // namespace
}  // namespace shardmark::test::router_test
