// SPDX-License-Identifier: Apache-2.0
// Rule: a model that is given by its Hugging Face config, with or without a PEFT adapter, has the
// tensors of transformers 5.24, in its registration order, and trains as transformers does in
// float64: every loss and gradient norm within 1e-5 (relative), at every stage and rank count, with
// ordered reductions.
#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/model_shape.hpp>
#include <tests/support/hf_models.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::hf_models_test {
namespace {

using nlohmann::json;

std::string title(const json& c) {
  return c.at("config").dump();
}

double relative(double have, double want) {
  return std::abs(have - want) / std::abs(want);
}

TEST(HfModels, HaveTheTensorsOfTransformersInTheirOrder) {
  const ScratchFolder folder;
  for (const json& c : hf_cases()) {
    SCOPED_TRACE(title(c));
    const ModelShape shape = build_model_shape(hf_deck(c, 0, folder).model);
    EXPECT_EQ(shape.elems, c.at("parameters"));
    std::size_t id = 0;
    for (const auto& [module, tensors] :
         c.at("modules").get<std::vector<std::pair<std::string, json>>>())
      for (const json& tensor : tensors) {
        ASSERT_LT(id, shape.params.size());
        EXPECT_EQ(shape.params[id].name, module + "." + tensor[0].get<std::string>());
        EXPECT_EQ(json(shape.params[id].shape), tensor[1]);
        ++id;
      }
    EXPECT_EQ(id, shape.params.size());
  }
}

// Trains all models that divide the ranks as their references were trained. What the plan says is
// written is written to its end.
void train_all(int stage, bool recompute) {
  const ScratchFolder folder;
  int trained = 0;
  for (const json& c : hf_cases()) {
    const json& r = c.at("reference");
    const int batch = r.at("batch"), micro = r.value("micro_batch", 0);
    if (batch % (std::max(micro, 1) * world()) != 0) continue;
    SCOPED_TRACE(title(c));
    Deck deck = hf_deck(c, stage, folder);
    deck.run.activation_checkpointing = recompute;
    if (micro > 0) deck.zero.accumulation_steps = batch / (micro * world());
    Training t(deck, MPI_COMM_WORLD);
    t.executor().watch_slots();
    t.init();
    for (std::size_t s = 0; s < r.at("losses").size(); ++s) {
      t.step();
      EXPECT_LT(relative(t.losses[s], r.at("losses")[s]), 1e-5) << "step " << s;
      EXPECT_LT(relative(t.norms[s], r.at("grad_norms")[s]), 1e-5) << "step " << s;
    }
    EXPECT_EQ(t.executor().end_watch().wrong, "");
    ++trained;
  }
  EXPECT_GE(trained, 60);
}

TEST(HfModels, TrainAsTransformersDoesWhereBlocksRunAgain) {
  train_all(3, true);
}

// How ranks divide a model: into `degree` parts of its samples or experts.
struct Division {
  const char* what;
  std::int64_t ParallelSpec::*axis;
  std::string (*refusal)(const ModelSpec& spec, std::int64_t degree);
  int on_two, on_three;  // the fewest models times stages on so many ranks
};

std::string undividable_alone(const ModelSpec& spec, std::int64_t degree) {
  return undividable(spec, degree);
}

constexpr Division divisions[] = {{"samples", &ParallelSpec::sequence, unsplittable, 45, 0},
                                  {"experts", &ParallelSpec::expert, unspreadable, 18, 0},
                                  {"layers", &ParallelSpec::tensor, undividable_alone, 63, 37}};

// Trains all models that ranks can divide by `d`, and returns how many there are. DeepSpeed's norm
// has no experts at stage 0.
int train_divided(const Division& d, std::int64_t degree, int stage) {
  const ScratchFolder folder;
  int trained = 0;
  for (const json& c : hf_cases()) {
    const json& r = c.at("reference");
    Deck deck = hf_deck(c, stage, folder);
    deck.zero.parallel.*d.axis = degree;
    const std::int64_t parts = d.axis == &ParallelSpec::expert ? world() : world() / degree;
    const std::int64_t batch = r.at("batch");
    if (batch % parts != 0 || r.contains("micro_batch") || !d.refusal(deck.model, degree).empty())
      continue;
    // DeepSpeed has no ranks without heads at stage 3.
    if (deck.zero.parallel.tensor > kv_heads_of(deck.model) && stage == 3) continue;
    SCOPED_TRACE(title(c) + fmt::format(", {} over {}", d.what, degree));
    Training t(deck, MPI_COMM_WORLD);
    t.init();
    for (std::size_t s = 0; s < r.at("losses").size(); ++s) {
      t.step();
      EXPECT_LT(relative(t.losses[s], r.at("losses")[s]), 1e-5) << "step " << s;
      EXPECT_LT(relative(t.norms[s], r.at("grad_norms")[s]), 1e-5) << "step " << s;
    }
    ++trained;
  }
  return trained;
}

// The norm is that of the float64 gradients, of which each rank has a part.
TEST(DividedHfModels, TrainAsTransformersDoes) {
  for (const Division& d : divisions) {
    int trained = 0;
    for (const std::int64_t degree : {2, 3, 4})
      for (const int stage : {1, 2, 3})
        if (world() % degree == 0) trained += train_divided(d, degree, stage);
    EXPECT_GE(trained, world() == 2 ? d.on_two : world() == 3 ? d.on_three : 0) << d.what;
  }
}

class Stages : public ::testing::TestWithParam<int> {};

TEST_P(Stages, TrainAsTransformersDoes) {
  train_all(GetParam(), false);
}

INSTANTIATE_TEST_SUITE_P(All, Stages, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace shardmark::test::hf_models_test
