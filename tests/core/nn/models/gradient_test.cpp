// SPDX-License-Identifier: Apache-2.0
// The gradient check: the gradient of every unit against central differences of the loss of a plain
// model in double, on shapes that divide nothing evenly and on sequences of several attention
// tiles; of a whole mixture of experts, along each gradient.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <tests/core/nn/models/reference_model.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::gradient_test {
namespace {

struct Shape {
  std::int64_t layers, hidden, heads, sequence, vocab, micro_batch;
  bool tied;
  std::int64_t probes;                 // parameters that are checked in each tensor
  std::int64_t kv_heads = 0, ffn = 0;  // of a Llama; with 0 the model is a GPT-2
  bool qkv_bias = false;               // of a Llama

  ModelSpec spec() const {
    ModelSpec m;
    m.family = kv_heads > 0 ? Family::llama : Family::gpt2;
    m.layers = layers, m.hidden = hidden, m.heads = heads, m.kv_heads = kv_heads, m.ffn = ffn;
    m.sequence = sequence, m.vocab = vocab, m.tied_head = tied, m.qkv_bias = qkv_bias;
    return m;
  }
  friend void PrintTo(const Shape& s, std::ostream* out) {
    *out << to_string(s.spec().family) << " hidden " << s.hidden << " sequence " << s.sequence
         << " vocab " << s.vocab << (s.qkv_bias ? " with biases" : "");
  }
};

// Moves the model away from its symmetric start, by up to 500 / divisor: every weight is large
// enough to matter, and no bias is zero.
void leave_start(SingleProcess& model, float divisor) {
  for (std::size_t t = 0; t < model.shape.params.size(); ++t) {
    float* v = model.values(t, model.param);
    for (std::int64_t i = 0; i < model.shape.params[t].elems; ++i)
      v[i] += (static_cast<float>(mix(17, t, i) % 1000) - 500.0f) / divisor;
  }
}

struct GradientCheck : ::testing::TestWithParam<Shape> {};

TEST_P(GradientCheck, agrees_with_difference_quotients_of_a_double_model) {
  const Shape s = GetParam();
  SingleProcess model(s.spec(), s.micro_batch, 5);
  leave_start(model, 4000);
  model.uniform_tokens(3, 0);
  model.forward();
  model.backward();

  Doubles param;
  for (std::size_t u = 0; u < model.shape.units.size(); ++u)
    param.insert(param.end(), model.param[u].data(), model.param[u].data() + model.param[u].size());
  const ReferenceModel reference(model.shape.spec, model.dims.micro_batch);
  EXPECT_NEAR(model.loss[0], reference.loss(param, model.tokens.data()), 2e-6);

  const double h = 1e-5;
  for (std::size_t t = 0; t < model.shape.params.size(); ++t) {
    const Param& p = model.shape.params[t];
    const double bound = 2e-6 + 1e-5 * model.norm(t, model.grad);
    for (std::int64_t probe = 0; probe < std::min(s.probes, p.elems); ++probe) {
      const std::int64_t i =
          s.probes >= p.elems ? probe : static_cast<std::int64_t>(mix(1, t, probe) % p.elems);
      double& x = param[p.first_elem + i];
      const double kept = x;
      x = kept + h;
      const double up = reference.loss(param, model.tokens.data());
      x = kept - h;
      const double down = reference.loss(param, model.tokens.data());
      x = kept;
      EXPECT_NEAR(model.values(t, model.grad)[i], (up - down) / (2 * h), bound)
          << p.name << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(shapes, GradientCheck,
                         ::testing::Values(Shape{2, 6, 3, 5, 11, 3, false, 1000},
                                           Shape{1, 15, 5, 7, 17, 2, true, 100},
                                           Shape{1, 4, 2, 131, 5, 2, false, 6},
                                           Shape{1, 72, 3, 70, 130, 1, true, 3},
                                           Shape{2, 12, 6, 5, 11, 3, false, 1000, 2, 7},
                                           Shape{2, 12, 6, 5, 11, 3, false, 1000, 2, 7, true},
                                           Shape{1, 20, 5, 7, 17, 2, true, 100, 5, 33},
                                           Shape{1, 16, 4, 131, 5, 2, false, 6, 1, 9},
                                           Shape{1, 72, 6, 70, 130, 1, true, 3, 3, 80}));

// A second backward that accumulates doubles every gradient, whatever the buffers contained at
// first.
TEST(gradients, accumulate_doubles_them) {
  for (const Shape& s :
       {Shape{2, 24, 3, 70, 37, 2, false, 0}, Shape{2, 24, 3, 70, 37, 2, true, 0},
        Shape{2, 24, 6, 70, 37, 2, false, 0, 3, 50}, Shape{2, 24, 6, 70, 37, 2, true, 0, 3, 50},
        Shape{2, 24, 6, 70, 37, 2, false, 0, 3, 50, true}}) {
    SingleProcess model(s.spec(), s.micro_batch, 5);
    model.uniform_tokens(3, 0);
    model.forward();
    model.backward(false);
    std::vector<double> once;
    for (std::size_t t = 0; t < model.shape.params.size(); ++t)
      once.push_back(model.norm(t, model.grad));
    const double loss = model.loss[0];
    model.forward(false);
    model.backward(true);
    EXPECT_EQ(model.loss[0], 2 * loss);
    for (std::size_t t = 0; t < model.shape.params.size(); ++t)
      EXPECT_NEAR(model.norm(t, model.grad), 2 * once[t], 4e-6 * once[t])
          << model.shape.params[t].name;
  }
}

// At the shape of real decks and in the middle of training, where values are no longer small, the
// derivative of the loss along the gradient of a tensor is the norm of that gradient.
struct RealShape : ::testing::TestWithParam<Shape> {};

TEST_P(RealShape, gradients_match_directional_derivatives_while_it_trains) {
  SingleProcess model(GetParam().spec(), GetParam().micro_batch, 5);
  AdamWStep step{1e-3, 0.9, 0.95, 1e-8, 0.1, 1};
  // A skewed distribution, like that of letters.
  auto load = [&](std::int64_t s) {
    for (std::int64_t i = 0; i < model.tokens.size(); ++i) {
      const auto roll = static_cast<std::int32_t>(mix(5, s, i) % 256);
      model.tokens[i] = roll * roll / 256;
    }
  };
  for (step.step = 1; step.step <= 5; ++step.step) {
    load(step.step);
    model.forward();
    model.backward();
    model.update(step, 1.0);
  }
  load(0);
  model.forward();
  model.backward();

  Doubles param, direction;
  for (std::size_t u = 0; u < model.shape.units.size(); ++u) {
    const auto append = [&](Doubles& to, const auto& from) {
      to.insert(to.end(), from.data(), from.data() + from.size());
    };
    append(param, model.param[u]);
    append(direction, model.grad[u]);
  }
  const ReferenceModel reference(model.shape.spec, model.dims.micro_batch);
  EXPECT_NEAR(model.loss[0], reference.loss(param, model.tokens.data()), 5e-6);

  const auto derivative_is_norm = [&](std::int64_t first, std::int64_t elems, const char* name) {
    double squares = 0;
    for (std::int64_t i = first; i < first + elems; ++i) squares += direction[i] * direction[i];
    const double norm = std::sqrt(squares), h = 1e-4;
    const auto loss_at = [&](double along) {
      Doubles moved = param;
      for (std::int64_t i = first; i < first + elems; ++i) moved[i] += along * direction[i] / norm;
      return reference.loss(moved, model.tokens.data());
    };
    EXPECT_NEAR((loss_at(h) - loss_at(-h)) / (2 * h) / norm, 1.0, 1e-4) << name;
  };
  derivative_is_norm(0, model.shape.elems, "all");
  for (const char* name : {"wte", "block0.attn.qkv.weight", "block1.mlp.proj.weight", "embed",
                           "block0.attn.k.weight", "block1.mlp.down.weight", "head.weight"})
    for (const Param& p : model.shape.params)
      if (p.name == name) derivative_is_norm(p.first_elem, p.elems, name);
}

INSTANTIATE_TEST_SUITE_P(families, RealShape,
                         ::testing::Values(Shape{2, 256, 4, 128, 256, 1, false, 0},
                                           Shape{2, 256, 4, 128, 256, 1, false, 0, 2, 344}));

// A Llama with a mixture of experts in each block.
struct Mixed {
  bool normalised;
  Routing routing;
  std::int64_t experts, per_token, shared_ffn;
  double balance_loss = 0;
  bool as_gpt_oss = false;  // sinks, biases and limited gates
  // Latent attention, scores that are sigmoids, and a shared expert without a factor.
  bool as_deepseek = false;
  std::int64_t q_rank = 0;  // of its queries

  ModelSpec spec() const {
    ModelSpec m;
    m.family = Family::decoder;
    m.layers = 2, m.hidden = 24, m.heads = 4, m.kv_heads = 2, m.ffn = 40;
    m.sequence = 19, m.vocab = 31;
    Decoder d = decoder_like(Family::llama);
    d.moe.experts = experts, d.moe.per_token = per_token, d.moe.ffn = 10;
    d.moe.normalised = normalised, d.moe.routing = routing, d.moe.shared_ffn = shared_ffn;
    d.moe.balance_loss = balance_loss;
    if (as_gpt_oss) {
      d.attention.sinks = d.moe.bias = d.moe.in_out = d.moe.interleaved = true;
      d.moe.gate = {0.8, 1.7, 1};
    }
    if (as_deepseek) {
      m.kv_heads = m.heads;
      d.attention.latent = {.kv_rank = 9, .q_rank = q_rank, .plain_dim = 5, .rotary_dim = 4};
      d.attention.latent.value_dim = q_rank > 0 ? 7 : 9;
      d.attention.qkv_bias = q_rank > 0;
      d.positions.rotary.neighbours = q_rank > 0;
      d.moe.scores = Scores::sigmoid;
      d.moe.shared_factor = false;
      d.moe.factor = 1.5;
    }
    d.modules.clear();
    for (const Role role : roles_of(d)) d.modules.push_back({name_of(role), role});
    m.decoder = SharedDecoder(std::move(d));
    return m;
  }
  static std::string name_of(Role role) {
    const std::string name(to_string(role));
    if (role == Role::sinks) return "h.*.attn";
    return role == Role::attn_proj ? "h.*.attn." + name : (in_block(role) ? "h.*." : "") + name;
  }
  friend void PrintTo(const Mixed& m, std::ostream* out) {
    *out << m.per_token << " of " << m.experts << (m.normalised ? " normalised, " : ", ")
         << to_string(m.routing) << ", shared " << m.shared_ffn << ", balance " << m.balance_loss
         << (m.as_gpt_oss    ? ", as gpt-oss"
             : m.as_deepseek ? ", as DeepSeek"
                             : "");
  }
};

struct MixtureCheck : ::testing::TestWithParam<Mixed> {};

// Experts are chosen by turns, since another choice would change the loss by a jump.
TEST_P(MixtureCheck, loss_changes_along_each_gradient_by_its_norm) {
  SingleProcess model(GetParam().spec(), 3, 5);
  leave_start(model, 2000);
  model.uniform_tokens(3, 0);
  model.forward();
  model.backward();
  for (std::size_t t = 0; t < model.shape.params.size(); ++t) {
    const Param& p = model.shape.params[t];
    float* const v = model.values(t, model.param);
    const float* const gradient = model.values(t, model.grad);
    const std::vector<float> kept(v, v + p.elems);
    const double norm = model.norm(t, model.grad), h = 4e-3;
    ASSERT_GT(norm, 1e-4) << p.name;
    const auto loss_at = [&](double along) {
      for (std::int64_t i = 0; i < p.elems; ++i)
        v[i] = kept[static_cast<std::size_t>(i)] + static_cast<float>(along * gradient[i] / norm);
      model.forward();
      return model.loss[0];
    };
    const double slope = (loss_at(h) - loss_at(-h)) / (2 * h);
    EXPECT_NEAR(slope, norm, 1e-4 + 5e-3 * norm) << p.name;
    std::copy(kept.begin(), kept.end(), v);
  }
}

INSTANTIATE_TEST_SUITE_P(mixtures, MixtureCheck,
                         ::testing::Values(Mixed{true, Routing::balanced, 4, 2, 0},
                                           Mixed{false, Routing::balanced, 7, 3, 12},
                                           Mixed{true, Routing::balanced, 5, 2, 0, 0.5},
                                           Mixed{false, Routing::balanced, 7, 3, 12, 2},
                                           Mixed{true, Routing::balanced, 5, 2, 0, 0.5, true},
                                           Mixed{true, Routing::balanced, 5, 2, 12, 0, false, true},
                                           Mixed{false, Routing::balanced, 4, 2, 12, 0.5, false,
                                                 true, 8}));

}  // namespace
}  // namespace shardmark::test::gradient_test
