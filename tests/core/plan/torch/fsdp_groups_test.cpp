// SPDX-License-Identifier: Apache-2.0
// Rules of the groups of `fully_shard`: each call takes what no earlier one has taken below its
// modules, every parameter is in one group, and each is cut along its first dimension by itself.
#include <set>

#include <gtest/gtest.h>

#include <core/plan/torch/fsdp_groups.hpp>
#include <core/plan/torch/gradient_flow.hpp>
#include <tests/support/hf_models.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::fsdp_groups_test {
namespace {

ModelShape list_of(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& modules) {
  ModelSpec spec;
  spec.family = Family::list;
  for (const auto& [name, tensors] : modules) spec.modules.push_back({name, tensors});
  return build_model_shape(spec);
}

std::vector<FsdpGroup> groups_of(const ModelShape& model, const TorchSpec& spec, int ranks = 2,
                                 int rank = 0) {
  return fsdp_groups(model, spec, ranks, rank, "d.json");
}

// The picture in fsdp_groups.hpp: 5 rows and 2 rows on three ranks.
TEST(FsdpGroups, CutEachParameterByItself) {
  const ModelShape model = list_of({{"m", {5, 2}}});
  const std::int64_t held[3][2] = {{2, 1}, {2, 1}, {1, 0}};
  for (int rank = 0; rank < 3; ++rank) {
    const auto groups = groups_of(model, {}, 3, rank);
    ASSERT_EQ(groups.size(), 1U);
    const FsdpGroup& g = groups[0];
    EXPECT_TRUE(g.is_root);
    EXPECT_EQ(g.row, 3) << "the shards of both, with padding";
    ASSERT_EQ(g.params.size(), 2U);
    EXPECT_EQ(g.params[0].shard, 2);
    EXPECT_EQ(g.params[1].shard, 1);
    EXPECT_EQ(g.params[1].at, 2);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(g.params[static_cast<std::size_t>(i)].held, held[rank][i]) << "rank " << rank;
    EXPECT_EQ(g.held, held[rank][0] + held[rank][1]);
  }
}

TEST(FsdpGroups, AreTheBlocksAndTheRootUnlessCallsAreGiven) {
  const ModelShape model = build_model_shape(gpt2_deck(3, 3).model);
  const auto groups = groups_of(model, {});
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups.back().name, "root");
  std::multiset<int> taken;
  for (const FsdpGroup& g : groups)
    for (const FsdpParam& p : g.params) taken.insert(p.id);
  EXPECT_EQ(taken.size(), model.params.size());
  EXPECT_EQ(std::set<int>(taken.begin(), taken.end()).size(), taken.size());
}

// transformers' names: a block lies two or three containers deep, and the head may be tied to the
// embedding, which both are the root's.
TEST(FsdpGroups, AreTheBlocksOfEveryModelOfTransformers) {
  const ScratchFolder folder;
  for (const nlohmann::json& c : hf_cases()) {
    SCOPED_TRACE(c.at("config").at("model_type").get<std::string>());
    const ModelShape model = build_model_shape(hf_deck(c, 3, folder).model);
    const auto groups = groups_of(model, {});
    const auto blocks = static_cast<std::size_t>(model.spec.layers);
    ASSERT_EQ(groups.size(), blocks + 1);
    for (std::size_t g = 0; g < blocks; ++g)
      EXPECT_TRUE(groups[g].name.ends_with("." + std::to_string(g))) << groups[g].name;
    EXPECT_EQ(groups.back().name, "root");
  }
}

TEST(FsdpGroups, TakeWhatNoEarlierCallHasTaken) {
  const ModelShape model = list_of({{"a", {8}}, {"b", {4}}, {"c", {2}}});
  TorchSpec spec;
  spec.fully_shard = {{"c", "a"}, {""}};
  const auto groups = groups_of(model, spec);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name, "c");
  EXPECT_EQ(groups[0].row, 5) << "half of 2 and of 8";
  EXPECT_EQ(groups[1].row, 2) << "b alone is left to the root";
}

TEST(FsdpGroups, GiveFrozenParametersNoPlaceAmongGradients) {
  ModelShape model = list_of({{"a", {8, 6}}, {"b", {4, 2}}});
  follow_gradients(model, {"a"}, "k");
  const auto groups = groups_of(model, {});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].row, 10);
  EXPECT_EQ(groups[0].grad_row, 3);
  EXPECT_EQ(groups[0].trained(), (std::vector<int>{2, 3}));
}

TEST(FsdpGroups, RefuseCallsThatPyTorchRefuses) {
  const ModelShape model = build_model_shape(gpt2_deck(3, 2, true).model);
  std::string tied;  // the module that uses a parameter of another one
  for (const Module& m : model.modules)
    if (m.tied_to >= 0) tied = m.name;
  ASSERT_NE(tied, "");
  const std::string first = model.modules[1].name;
  const struct {
    std::vector<std::vector<std::string>> calls;
    const char* says;
  } cases[] = {
      {{{first}}, "must end with \"\", the root"},
      {{{first}, {first}, {""}}, "named twice"},
      {{{"nobody"}, {""}}, "no module has this name"},
      {{{tied}, {""}}, "because it is tied"},
  };
  for (const auto& c : cases) {
    TorchSpec spec;
    spec.fully_shard = c.calls;
    try {
      groups_of(model, spec);
      ADD_FAILURE() << "accepted: " << c.says;
    } catch (const DeckError& error) {
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    }
  }
  TorchSpec along_columns;
  along_columns.shard_dim = 1;
  EXPECT_NO_THROW(groups_of(model, along_columns, 2));
  EXPECT_THROW(groups_of(model, along_columns, 7), DeckError);
}

}  // namespace
}  // namespace shardmark::test::fsdp_groups_test
