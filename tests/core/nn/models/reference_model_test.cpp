// SPDX-License-Identifier: Apache-2.0
// Trainings of small transformers against the float64 results of an independent implementation:
// losses agree within 1e-6, gradient norms and the final norms of the tensors within 5e-6, with
// active clipping and with tied heads.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <core/nn/optimizer/init.hpp>
#include <core/nn/products/bf16_products.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::reference_model_test {
namespace {

using nlohmann::json;

json cases() {
  std::ifstream file(SHARDMARK_TESTS "/data/transformer_reference.json");
  return json::parse(file).at("cases");
}

double relative(double value, double expected) {
  return std::abs(value - expected) / std::abs(expected);
}

// The gradient of the keys' bias is zero in exact arithmetic, because softmax does not depend on
// that bias. AdamW amplifies the rounding noise, so the final norms of this tensor are not
// compared.
bool is_noise(const std::string& name) {
  return name.ends_with("attn.qkv.bias");
}

struct Training : ::testing::TestWithParam<int> {
  json c = cases().at(GetParam());
  ModelSpec spec() const {
    const json& m = c.at("config");
    ModelSpec s;
    s.layers = m.at("layers"), s.hidden = m.at("hidden"), s.heads = m.at("heads");
    if (m.at("family") == "llama") {
      s.family = Family::llama;
      s.kv_heads = m.at("kv_heads"), s.ffn = m.at("ffn");
    }
    s.sequence = m.at("sequence"), s.vocab = m.at("vocab"), s.tied_head = m.at("tied_head");
    return s;
  }
};

// One micro-batch of all samples, and two micro-batches that add up to it.
struct ReferenceTraining : Training {
  void train(std::int64_t accumulation) {
    const json& config = c.at("config");
    const json& o = config.at("optimizer");
    const std::uint64_t seed = config.at("seed");
    const std::int64_t batch = config.at("batch"), micro = batch / accumulation;
    SingleProcess model(spec(), micro, seed);
    ASSERT_EQ(model.shape.elems, c.at("parameters"));
    const json& tensors = c.at("tensors");
    ASSERT_EQ(model.shape.params.size(), tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      EXPECT_EQ(model.shape.params[t].name, tensors[t].at("name").get<std::string>());
      EXPECT_EQ(model.values(t, model.param)[model.shape.params[t].elems - 1],
                static_cast<float>(tensors[t].at("initial_last").get<double>()))
          << tensors[t].at("name");
    }
    AdamWStep step{o.at("lr"),  o.at("betas")[0],     o.at("betas")[1],
                   o.at("eps"), o.at("weight_decay"), 0};
    for (std::int64_t s = 0; s < config.at("steps"); ++s) {
      for (std::int64_t g = 0; g < accumulation; ++g) {
        model.uniform_tokens(seed, s, g * micro);
        model.forward(g == 0, 1.0f / static_cast<float>(accumulation));
        model.backward(g > 0);
      }
      EXPECT_LT(relative(model.loss[0] / static_cast<double>(accumulation), c.at("losses")[s]),
                1e-6)
          << "step " << s;
      if (s == 0) check_first_gradients(model);
      step.step = s + 1;
      model.update(step, config.at("gradient_clipping"));
      EXPECT_LT(relative(model.clip[0], c.at("grad_norms")[s]), 5e-6) << "step " << s;
    }
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (!is_noise(tensors[t].at("name"))) {
        EXPECT_LT(relative(model.norm(t, model.param), tensors[t].at("final_norm")), 5e-6)
            << tensors[t].at("name");
      }
  }

  void check_first_gradients(const SingleProcess& model) {
    const json& tensors = c.at("tensors");
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const json& tensor = tensors[t];
      EXPECT_LT(relative(model.norm(t, model.grad), tensor.at("step0_grad_norm")), 5e-6)
          << tensor.at("name");
      const float last = model.values(t, model.grad)[model.shape.params[t].elems - 1];
      EXPECT_NEAR(last, tensor.at("step0_grad_last").get<double>(),
                  5e-6 * tensor.at("step0_grad_norm").get<double>())
          << tensor.at("name");
    }
  }
};

TEST_P(ReferenceTraining, matches_in_one_micro_batch) {
  train(1);
}
TEST_P(ReferenceTraining, matches_in_three_micro_batches) {
  train(3);
}

// Training in 16 bits. Every value on the longest way to a logit is rounded at most 16 times per
// block (norm, weight and product of each linear layer, probabilities, two sums of the residual
// stream …) and 5 times outside of blocks, each time with a relative error of at most u = 2^-8
// (bf16) or 2^-11 (fp16). The roundings are independent, so their squares add up: over the way to
// sqrt(roundings) u, and over the hidden size, with a normalised vector times weights of deviation
// 0.02, to that times 0.02 sqrt(hidden) of a logit. The gradient of a row's loss with respect to
// its logits has length at most sqrt(2). The gradient of a parameter has as many more roundings on
// the way back.
struct SixteenBitTraining : Training {
  template<class T>
  void train(double u, double loss_scale, Bf16Products products) {
    const json& config = c.at("config");
    const json& o = config.at("optimizer");
    const ModelSpec s = spec();
    const double roundings = 16.0 * static_cast<double>(s.layers) + 5;
    const double loss_bound =
        std::sqrt(2 * roundings) * u * 0.02 * std::sqrt(static_cast<double>(s.hidden));
    const double norm_bound = std::sqrt(2 * roundings) * u;
    SingleProcessOf<T> model(s, config.at("batch"), config.at("seed"), products);
    AdamWStep step{o.at("lr"),  o.at("betas")[0],     o.at("betas")[1],
                   o.at("eps"), o.at("weight_decay"), 0};
    for (std::int64_t i = 0; i < config.at("steps"); ++i) {
      model.uniform_tokens(config.at("seed"), i);
      model.forward(true, static_cast<float>(loss_scale));
      model.backward();
      step.step = i + 1;
      model.update(step, config.at("gradient_clipping"), loss_scale);
      const double norm = c.at("grad_norms")[i];
      EXPECT_NEAR(model.loss[0], c.at("losses")[i], loss_bound) << "step " << i;
      EXPECT_LT(relative(model.clip[0], norm), norm_bound) << "step " << i;
    }
  }
};

TEST_P(SixteenBitTraining, is_close_in_bf16_by_widened_products) {
  train<Bf16>(0x1p-8, 1, Bf16Products::widened);
}
TEST_P(SixteenBitTraining, is_close_in_bf16_by_native_products) {
  if (!has_native_bf16(Space())) GTEST_SKIP() << "the matrix library has none here";
  train<Bf16>(0x1p-8, 1, Bf16Products::native);
}
TEST_P(SixteenBitTraining, is_close_in_fp16) {
  train<Fp16>(0x1p-11, 1024, Bf16Products::widened);
}

INSTANTIATE_TEST_SUITE_P(all_cases, SixteenBitTraining, ::testing::Range(0, 5));
INSTANTIATE_TEST_SUITE_P(all_cases, ReferenceTraining, ::testing::Range(0, 5));

}  // namespace
}  // namespace shardmark::test::reference_model_test
