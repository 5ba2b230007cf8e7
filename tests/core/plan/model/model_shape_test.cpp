// SPDX-License-Identifier: Apache-2.0
// Rule: the shape of a model is that of the reference in names, sizes and order; units are
// contiguous.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/deepspeed/module_classes.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::model_shape_test {
namespace {

using nlohmann::json;

json reference() {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/transformer_reference.json");
  return json::parse(file);
}

// A rank's part shrinks with its group; the model that is trained does not.
TEST(ModelShape, KnowsTheParametersOfTheWholeModel) {
  ModelSpec s;
  s.family = Family::llama;
  s.layers = 2, s.hidden = 64, s.heads = 8, s.kv_heads = 4, s.ffn = 96, s.vocab = 64,
  s.sequence = 8;
  const ModelShape whole = build_model_shape(s);
  EXPECT_EQ(whole.parameters, whole.elems);
  s.part = {.ranks = 4, .rank = 1};
  const ModelShape part = build_model_shape(s);
  EXPECT_LT(part.elems, whole.elems / 2);
  EXPECT_EQ(part.parameters, whole.elems);
}

TEST(ModelShape, NamesAndSizesAreThoseOfTheReference) {
  const json all = reference();
  int seen = 0;
  for (const json& c : all.at("cases")) {
    const json& config = c.at("config");
    ++seen;
    ModelSpec s;
    if (config.at("family") == "llama") {
      s.family = Family::llama;
      s.kv_heads = config.at("kv_heads"), s.ffn = config.at("ffn");
    }
    s.layers = config.at("layers"), s.hidden = config.at("hidden"), s.heads = config.at("heads");
    s.sequence = config.at("sequence"), s.vocab = config.at("vocab");
    s.tied_head = config.at("tied_head");
    const ModelShape m = build_model_shape(s);
    EXPECT_EQ(m.elems, c.at("parameters").get<std::int64_t>());
    ASSERT_EQ(m.params.size(), c.at("tensors").size());
    for (std::size_t i = 0; i < m.params.size(); ++i) {
      const json& tensor = c.at("tensors")[i];
      std::int64_t elems = 1;
      for (std::int64_t n : tensor.at("shape")) elems *= n;
      EXPECT_EQ(m.params[i].name, tensor.at("name").get<std::string>());
      EXPECT_EQ(m.params[i].elems, elems) << m.params[i].name;
    }
  }
  EXPECT_EQ(seen, 5);
}

TEST(ModelShape, UnitsAreContiguousAndCoverTheModel) {
  for (bool tied : {false, true}) {
    const ModelShape m = build_model_shape(gpt2_deck(0, 3, tied).model);
    ASSERT_EQ(m.units.size(), 5U);
    std::int64_t next_elem = 0;
    int next_param = 0;
    for (const Unit& u : m.units) {
      EXPECT_EQ(u.first_elem, next_elem);
      EXPECT_EQ(u.first_param, next_param);
      next_elem += u.elems;
      next_param += u.param_count;
    }
    EXPECT_EQ(next_elem, m.elems);
    EXPECT_EQ(m.units.back().also_reads, tied ? std::vector<int>{0} : std::vector<int>{});
  }
}

ModelSpec list(std::vector<ListModule> modules) {
  ModelSpec s;
  s.family = Family::list;
  s.modules = std::move(modules);
  return s;
}

TEST(ModelShape, AListsOutermostContainersAndBareModulesAreUnits) {
  const ModelShape m = build_model_shape(list({{"", {}},
                                               {"wte", {40}},
                                               {"h.0", {}},
                                               {"h.0.attn", {}},
                                               {"h.0.attn.c", {12, 3}},
                                               {"h.0.ln", {4}},
                                               {"h.1", {}},
                                               {"h.1.c", {5}},
                                               {"ln_f", {6, 6}}}));
  ASSERT_EQ(m.units.size(), 4U);
  EXPECT_EQ(m.units[0].name, "wte");
  EXPECT_EQ(m.units[1].name, "h.0");
  EXPECT_EQ(m.units[1].elems, 19);
  EXPECT_EQ(m.units[2].elems, 5);
  EXPECT_EQ(m.units[3].elems, 12);
  EXPECT_EQ(m.elems, 76);
}

TEST(ModelShape, ACheckpointedBlockRunsForwardAgainBeforeItsFirstBackward) {
  const ModelSpec spec = gpt2_deck(0, 3).model;
  for (const bool recompute : {false, true}) {
    const ModelShape m = build_model_shape(spec, recompute);
    const auto again = m.recomputed_before();
    std::vector<int> seen;
    for (std::size_t before = 0; before < again.size(); ++before) {
      if (again[before].empty()) continue;
      EXPECT_EQ(m.modules[before].role, Role::mlp_proj);
      for (int id : again[before]) {
        EXPECT_EQ(m.modules[id].unit, m.modules[before].unit);
        seen.push_back(id);
      }
    }
    std::vector<int> blocks;
    for (int id : m.computing(VisitKind::pre_forward))
      if (recompute && m.units[m.modules[id].unit].kind == UnitKind::block) blocks.push_back(id);
    EXPECT_EQ(seen, blocks);
  }
}

TEST(ModelShape, AModuleAwayFromItsContainerIsRefused) {
  EXPECT_THROW(build_model_shape(list({{"h.0", {}}, {"h.0.a", {1}}, {"x", {1}}, {"h.0.b", {1}}})),
               DeckError);
}

TEST(ModelShape, ATiedAliasAddsNoParameter) {
  ModelSpec s = list({{"wte", {40}}, {"h", {8}}, {"head", {40}}});
  s.tied = {{"head", "wte"}};
  EXPECT_EQ(build_model_shape(s).elems, 48);
}

// A parameter is sent as the class of any module that uses it asks for, and the class must be the
// very one.
TEST(ModelShape, ClassesSelectTheParametersOfTheirModules) {
  ModelSpec s;
  s.family = Family::list;
  s.modules = {{"wte", {40}, {}, "torch.nn.modules.sparse.Embedding"},
               {"h", {8, 3}, {}, "torch.nn.Linear"},
               {"own", {8}, {}, "own.Linear"},
               {"head", {40}, {}, "torch.nn.modules.linear.Linear"}};
  s.tied = {{"head", "wte"}};
  const ModelShape shape = build_model_shape(s);
  using Found = std::vector<bool>;
  EXPECT_EQ(params_of_classes(shape, {"torch.nn.Linear"}), (Found{true, true, true, false}));
  EXPECT_EQ(params_of_classes(shape, {"own.Linear"}), (Found{false, false, false, true}));
  EXPECT_EQ(params_of_classes(shape, {}), (Found{false, false, false, false}));

  const ModelShape gpt2 = build_model_shape(gpt2_deck(0).model);
  const auto safe = params_of_classes(gpt2, {"torch.nn.Linear"});
  const auto apart = params_of_classes(gpt2, {"torch.nn.LayerNorm", "torch.nn.Embedding"});
  for (std::size_t id = 0; id < gpt2.params.size(); ++id) {
    EXPECT_NE(safe[id], apart[id]) << gpt2.params[id].name;
    EXPECT_EQ(apart[id], gpt2.params[id].name.find("ln_") != std::string::npos ||
                             gpt2.params[id].name.starts_with("w"));
  }
}

TEST(ModelShape, CountsBeyond63BitsAreRefused) {
  ModelSpec s = gpt2_deck(0).model;
  s.hidden = std::int64_t{1} << 31;
  s.heads = 1;
  EXPECT_THROW(build_model_shape(s), PlanError);
}

}  // namespace
}  // namespace shardmark::test::model_shape_test
