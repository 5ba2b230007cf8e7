// SPDX-License-Identifier: Apache-2.0
// Rules of where autograd's gradients go: from the last module back to the first one that needs
// them, past frozen modules, and never into data.
#include <gtest/gtest.h>

#include <core/plan/torch/gradient_flow.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::gradient_flow_test {
namespace {

// Three linear modules, one after another: modules 1 to 3, since 0 is the root.
ModelShape chain() {
  ModelSpec spec;
  spec.family = Family::list;
  for (const char* name : {"a", "b", "c"}) spec.modules.push_back({name, {4, 2}});
  return build_model_shape(spec);
}

TEST(GradientFlow, ReachesWhatNeedsItAndNeverData) {
  using Bits = std::vector<bool>;
  const struct {
    std::vector<std::string> frozen;
    Bits inputs, outputs, needs;  // of a, b and c
  } cases[] = {
      {{}, {false, true, true}, {true, true, true}, {true, true, true}},
      {{"a"}, {false, false, true}, {false, true, true}, {false, true, true}},
      {{"b"}, {false, true, true}, {true, true, true}, {true, false, true}},
      {{"a", "b"}, {false, false, false}, {false, false, true}, {false, false, true}},
      {{"c"}, {false, true, true}, {true, true, true}, {true, true, false}},
  };
  for (const auto& c : cases) {
    ModelShape model = chain();
    const GradientFlow flow = follow_gradients(model, c.frozen, "torch.frozen");
    for (std::size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(::testing::Message() << c.frozen.size() << " frozen, module " << i);
      EXPECT_EQ(flow.inputs[i + 1], c.inputs[i]);
      EXPECT_EQ(flow.outputs[i + 1], c.outputs[i]);
      for (std::size_t p = 2 * i; p < 2 * i + 2; ++p) {
        EXPECT_EQ(flow.needs[p], c.needs[i]);
        EXPECT_EQ(model.params[p].use, c.needs[i] ? ParamUse::trained : ParamUse::frozen);
      }
    }
  }
}

// Modules of one tensor before all others are embeddings: each is fed with data, although the one
// before it has an output that needs a gradient.
TEST(GradientFlow, DoesNotReachEmbeddingsThroughEachOther) {
  ModelSpec spec;
  spec.family = Family::list;
  spec.modules = {{"tokens", {4}}, {"positions", {2}}, {"block", {4, 2}}, {"head", {3}}};
  ModelShape model = build_model_shape(spec);
  const GradientFlow flow = follow_gradients(model, {}, "torch.frozen");
  const std::vector<bool> inputs(flow.inputs.begin() + 1, flow.inputs.end());
  EXPECT_EQ(inputs, (std::vector<bool>{false, false, true, true}));
}

TEST(GradientFlow, IsStoppedForASingleParameter) {
  ModelShape model = chain();
  const GradientFlow flow = follow_gradients(model, {model.params[3].name}, "torch.frozen");
  EXPECT_EQ(flow.needing(), (std::vector<int>{0, 1, 2, 4, 5}));
}

TEST(GradientFlow, NeedsNamesThatExistAndSomethingToTrain) {
  const auto refusal = [](const std::vector<std::string>& frozen) -> std::string {
    ModelShape model = chain();
    try {
      follow_gradients(model, frozen, "torch.frozen");
      return "accepted";
    } catch (const DeckError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal({"d"}), "torch.frozen = \"d\": no module or parameter has this name");
  EXPECT_EQ(refusal({"a", "b", "c"}), "torch.frozen: leaves no parameter to train: name fewer");
  EXPECT_EQ(refusal({""}), refusal({"a", "b", "c"})) << "the root holds all";
}

}  // namespace
}  // namespace shardmark::test::gradient_flow_test
