// SPDX-License-Identifier: Apache-2.0
// Rules of a mixture of experts: a row has its experts by the largest logits, or by turns that give
// all experts equally many rows; pairs are sorted by experts and keep the order of rows; values and
// gradients are those of a plain loop in double.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <core/nn/layers/balance_loss.hpp>
#include <tests/core/nn/layers/router_fixture.hpp>

namespace shardmark::test::experts_test {
namespace {

constexpr std::int64_t rows = 13, experts = 5, choices = 3, pairs = rows * choices;

struct Experts : RouterTest {
  Experts() : RouterTest(rows, experts, choices) {}
  MoeSpec spec(bool normalised, Routing routing = Routing::learned) const {
    MoeSpec m;
    m.experts = experts, m.per_token = choices, m.ffn = 4, m.normalised = normalised;
    m.routing = routing;
    return m;
  }
  void choose(const MoeSpec& m) {
    for (std::int64_t i = 0; i < rows * experts; ++i) probabilities[i] = logits[i];
    choose_experts(ctx, m, routes());
  }
  // The weights of a row's chosen experts, for logits in double.
  std::vector<double> weights_of(std::int64_t row, const std::vector<double>& of_row,
                                 bool normalised) const {
    double sum = 0, of_chosen = 0;
    for (const double v : of_row) sum += std::exp(v);
    std::vector<double> w;
    for (std::int64_t j = 0; j < choices; ++j) {
      w.push_back(std::exp(of_row[static_cast<std::size_t>(chosen[row * choices + j])]) / sum);
      of_chosen += w.back();
    }
    for (double& v : w) v /= normalised ? of_chosen : 1;
    return w;
  }
  std::vector<double> logits_of(std::int64_t row) const {
    return {logits.data() + row * experts, logits.data() + (row + 1) * experts};
  }

  Buffer<float> logits = filled(rows * experts, 1);
};

TEST_F(Experts, have_the_rows_with_the_largest_logits) {
  for (const bool normalised : {false, true}) {
    choose(spec(normalised));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<double> of_row = logits_of(r), want = weights_of(r, of_row, normalised);
      std::vector<double> sorted = of_row;
      std::sort(sorted.rbegin(), sorted.rend());
      for (std::int64_t j = 0; j < choices; ++j) {
        EXPECT_EQ(of_row[static_cast<std::size_t>(chosen[r * choices + j])],
                  sorted[static_cast<std::size_t>(j)]);
        EXPECT_NEAR(weights[r * choices + j], want[static_cast<std::size_t>(j)], 1e-6);
      }
    }
  }
}

TEST_F(Experts, have_equally_many_rows_by_turns) {
  choose(spec(false, Routing::balanced));
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t count = starts[e + 1] - starts[e];
    EXPECT_EQ(count, pairs / experts + (e < pairs % experts ? 1 : 0));
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int32_t* of_row = chosen.data() + r * choices;
    EXPECT_EQ(std::set<std::int32_t>(of_row, of_row + choices).size(), choices) << "all different";
  }
}

TEST_F(Experts, sort_pairs_and_keep_the_order_of_rows) {
  choose(spec(false));
  EXPECT_EQ(starts[0], 0);
  EXPECT_EQ(starts[experts], pairs);
  for (std::int64_t e = 0; e < experts; ++e)
    for (std::int32_t place = starts[e]; place < starts[e + 1]; ++place) {
      const std::int32_t pair = sources[place];
      EXPECT_EQ(chosen[pair], e);
      EXPECT_EQ(places[pair], place);
      if (place == starts[e]) continue;
      EXPECT_GT(pair, sources[place - 1]);
    }
}

TEST_F(Experts, take_the_lowest_of_equal_logits) {
  for (std::int64_t i = 0; i < rows * experts; ++i) logits[i] = 1;
  choose(spec(true));
  for (std::int64_t p = 0; p < pairs; ++p) EXPECT_EQ(chosen[p], p % choices);
}

TEST_F(Experts, gradients_of_logits_agree_with_difference_quotients) {
  const auto dweights = filled(pairs, 7);
  Buffer<float> dlogits(rows * experts);
  for (const bool normalised : {false, true}) {
    choose(spec(normalised));
    choose_experts_backward(ctx, spec(normalised), routes(), dweights.data(), nullptr,
                            dlogits.data());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t e = 0; e < experts; ++e) {
        const auto value = [&](double step) {
          std::vector<double> of_row = logits_of(r);
          of_row[static_cast<std::size_t>(e)] += step;
          const std::vector<double> w = weights_of(r, of_row, normalised);
          double sum = 0;
          for (std::int64_t j = 0; j < choices; ++j)
            sum += w[static_cast<std::size_t>(j)] * dweights[r * choices + j];
          return sum;
        };
        const double h = 1e-5;
        EXPECT_NEAR(dlogits[r * experts + e], (value(h) - value(-h)) / (2 * h), 2e-6);
      }
  }
}

// The loss of transformers' load_balancing_loss_func, over two layers with the same logits.
TEST_F(Experts, are_balanced_by_a_loss_whose_gradient_agrees_with_difference_quotients) {
  choose(spec(true));
  const std::int64_t layers = 2;
  const double n = layers * rows, factor = 0.7 * experts / (n * n);
  Buffer<float> sums(layers * 2 * experts), dprobabilities(experts), dlogits(rows * experts);
  for (std::int64_t l = 0; l < layers; ++l)
    balance_sums(ctx, routes(), sums.data() + l * 2 * experts);
  // The loss after `step` was added to one logit of the second layer.
  const auto loss_of = [&](std::int64_t moved, std::int64_t by, double step) {
    std::vector<double> probability(experts);
    double loss = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::vector<double> first = logits_of(r), second = first;
      if (r == moved) second[static_cast<std::size_t>(by)] += step;
      for (const std::vector<double>& of_row : {first, second}) {
        double sum = 0;
        for (const double v : of_row) sum += std::exp(v);
        for (std::size_t e = 0; e < of_row.size(); ++e) probability[e] += std::exp(of_row[e]) / sum;
      }
    }
    for (std::int64_t e = 0; e < experts; ++e)
      loss +=
          double(layers * (starts[e + 1] - starts[e])) * probability[static_cast<std::size_t>(e)];
    return factor * loss;
  };
  Buffer<double> loss(1);
  loss[0] = 3;
  const BalanceLoss balance{sums.data(), layers, experts, factor};
  add_balance_loss(ctx, balance, loss.data());
  EXPECT_NEAR(loss[0], 3 + loss_of(0, 0, 0), 1e-6);
  balance_gradient(ctx, balance, 2, dprobabilities.data());
  Buffer<float> none(pairs);
  for (std::int64_t p = 0; p < pairs; ++p) none[p] = 0;
  for (const bool normalised : {false, true}) {
    choose_experts_backward(ctx, spec(normalised), routes(), none.data(), dprobabilities.data(),
                            dlogits.data());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t e = 0; e < experts; ++e)
        EXPECT_NEAR(dlogits[r * experts + e], (loss_of(r, e, 1e-5) - loss_of(r, e, -1e-5)) / 1e-5,
                    1e-6);
  }
}

TEST_F(Experts, rows_are_collected_and_combined_by_weights) {
  const std::int64_t h = 70;
  choose(spec(true));
  const auto x = filled(rows * h, 3), sorted = filled(pairs * h, 4), y = filled(rows * h, 5);
  const auto before = filled(rows * h, 5);
  Buffer<float> collected(pairs * h);
  collect_rows(ctx, routes(), h, x.data(), collected.data());
  combine_rows(ctx, routes(), h, weights.data(), sorted.data(), y.data(), true);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < h; ++j) {
      double sum = before[r * h + j];
      for (std::int64_t p = r * choices; p < (r + 1) * choices; ++p) {
        EXPECT_EQ(collected[places[p] * h + j], x[r * h + j]);
        sum += double(weights[p]) * sorted[places[p] * h + j];
      }
      EXPECT_NEAR(y[r * h + j], sum, 2e-6);
    }
}

TEST_F(Experts, gradients_of_weights_come_from_the_activation) {
  const std::int64_t f = 67;
  choose(spec(true));
  const auto gate_up = filled(pairs * 2 * f, 3), act = filled(pairs * f, 4),
             dgate_up = filled(pairs * 2 * f, 5);
  const auto act_before = filled(pairs * f, 4), d_before = filled(pairs * 2 * f, 5);
  Buffer<float> dweights(pairs);
  weigh_pairs(ctx, routes(), {pairs, f, 2 * f}, {}, gate_up.data(), act.data(), dgate_up.data(),
              dweights.data());
  for (std::int64_t place = 0; place < pairs; ++place) {
    const std::int32_t pair = sources[place];
    double dweight = 0;
    for (std::int64_t j = 0; j < f; ++j) {
      const std::int64_t up = (2 * place + 1) * f + j, gate = up - f;
      dweight += double(gate_up[up]) * d_before[up];
      EXPECT_EQ(act[place * f + j], weights[pair] * act_before[place * f + j]);
      EXPECT_EQ(dgate_up[up], weights[pair] * d_before[up]);
      EXPECT_EQ(dgate_up[gate], weights[pair] * d_before[gate]);
    }
    EXPECT_NEAR(dweights[pair], dweight, 5e-5);
  }
}

// The gates of gpt-oss, whose gate and up alternate in one tensor.
TEST_F(Experts, gates_with_limits_have_the_gradients_of_difference_quotients) {
  const std::int64_t f = 6;
  const GateRule rule{1.2, 1.7, 1};
  const GatedRows size{pairs, f, 2 * f, 2};
  choose(spec(true));
  const auto gate_up = filled(pairs * 2 * f, 3), act = filled(pairs * f, 4);
  const auto dact = filled(pairs * f, 4);
  Buffer<float> y(pairs * f), dgate_up(pairs * 2 * f), dweights(pairs);
  gated_forward(ctx, Activation::gelu, size, gate_up.data(), gate_up.data() + 1, y.data(), rule);
  gated_backward(ctx, Activation::gelu, size, gate_up.data(), gate_up.data() + 1, act.data(),
                 act.data(), dgate_up.data(), dgate_up.data() + 1, rule);
  weigh_pairs(ctx, routes(), size, rule, gate_up.data(), act.data(), dgate_up.data(),
              dweights.data());
  const auto value = [&](double gate, double up) {
    const double g = std::min(gate, rule.limit);
    return g / (1 + std::exp(-rule.gain * g)) * (std::clamp(up, -rule.limit, rule.limit) + 1);
  };
  int cut = 0;
  for (std::int64_t place = 0; place < pairs; ++place) {
    const double weight = weights[sources[place]], h = 1e-5;
    double dweight = 0;
    for (std::int64_t j = 0; j < f; ++j) {
      const std::int64_t at = 2 * (place * f + j);
      const double gate = gate_up[at], up = gate_up[at + 1], d = dact[at / 2];
      dweight += value(gate, up) * d;
      EXPECT_NEAR(y[at / 2], value(gate, up), 1e-5);
      EXPECT_NEAR(act[at / 2], weight * value(gate, up), 1e-5);
      EXPECT_NEAR(dgate_up[at], weight * d * (value(gate + h, up) - value(gate - h, up)) / (2 * h),
                  2e-5);
      EXPECT_NEAR(dgate_up[at + 1],
                  weight * d * (value(gate, up + h) - value(gate, up - h)) / (2 * h), 2e-5);
      cut += up > rule.limit || gate > rule.limit;
    }
    EXPECT_NEAR(dweights[sources[place]], dweight, 5e-5);
  }
  EXPECT_GT(cut, 50);
}

TEST_F(Experts, biases_of_outputs_count_in_the_gradients_of_weights) {
  const std::int64_t h = 70;
  choose(spec(true));
  const auto bias = filled(experts * h, 3), d = filled(pairs * h, 4), before = filled(pairs * h, 4);
  const auto dweights = filled(pairs, 5), had = filled(pairs, 5);
  weigh_rows(ctx, routes(), h, bias.data(), d.data(), dweights.data());
  for (std::int64_t place = 0; place < pairs; ++place) {
    const std::int32_t pair = sources[place];
    double dweight = had[pair];
    for (std::int64_t j = 0; j < h; ++j) {
      dweight += double(bias[chosen[pair] * h + j]) * before[place * h + j];
      EXPECT_EQ(d[place * h + j], weights[pair] * before[place * h + j]);
    }
    EXPECT_NEAR(dweights[pair], dweight, 1e-4);
  }
}

TEST_F(Experts, all_rows_have_the_shared_one_by_a_sigmoid) {
  const std::int64_t h = 70;
  const auto x = filled(rows * h, 3), weight = filled(h, 4), out = filled(rows * h, 5),
             sum = filled(rows * h, 6), dy = filled(rows * h, 7);
  Buffer<float> factor(rows), y(rows * h), dlogits(rows), dx(rows * h), dout(rows * h), dweight(h);
  const SharedExpert shared{rows, h, x.data(), weight.data(), out.data(), factor.data()};
  add_shared_expert(ctx, shared, sum.data(), y.data());
  add_shared_expert_backward(ctx, shared, dy.data(), dlogits.data(), dx.data(), dout.data(),
                             dweight.data(), false);
  std::vector<double> want(static_cast<std::size_t>(h));
  for (std::int64_t r = 0; r < rows; ++r) {
    double logit = 0, dfactor = 0;
    for (std::int64_t j = 0; j < h; ++j) {
      logit += double(x[r * h + j]) * weight[j];
      dfactor += double(dy[r * h + j]) * out[r * h + j];
    }
    const double s = 1 / (1 + std::exp(-logit)), dlogit = dfactor * s * (1 - s);
    for (std::int64_t j = 0; j < h; ++j) {
      EXPECT_NEAR(y[r * h + j], sum[r * h + j] + s * out[r * h + j], 1e-5);
      EXPECT_NEAR(dx[r * h + j], dlogit * weight[j], 1e-4);
      EXPECT_NEAR(dout[r * h + j], s * dy[r * h + j], 1e-5);
      want[static_cast<std::size_t>(j)] += dlogit * x[r * h + j];
    }
  }
  for (std::int64_t j = 0; j < h; ++j)
    EXPECT_NEAR(dweight[j], want[static_cast<std::size_t>(j)], 1e-3);
}

}  // namespace
}  // namespace shardmark::test::experts_test
