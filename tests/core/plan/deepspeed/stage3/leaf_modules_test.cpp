// SPDX-License-Identifier: Apache-2.0
// Rules of leaf modules: plans are legal wherever leaves lie, a leaf is gathered in one collective,
// and modules that DeepSpeed's hooks cannot serve as leaves are refused.
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/deepspeed/stage3/leaf_modules.hpp>
#include <core/plan/interpret/check.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::leaf_modules_test {
namespace {

// Two layers, the second of which has experts.
Deck mixture_deck(LeafModules leaves) {
  Deck deck = deepspeed_deck(3);
  ModelSpec& m = deck.model;
  m.family = Family::decoder, m.kv_heads = m.heads, m.ffn = 24;
  Decoder d = decoder_like(Family::llama);
  d.moe.experts = 3, d.moe.per_token = 2, d.moe.ffn = 8, d.moe.layers = {0, 1};
  d.moe.block_class = "models.Experts";
  d.modules.clear();
  for (const Role role : roles_of(d)) {
    const bool mlp =
        in_mixture(role) || role == Role::gate || role == Role::up || role == Role::mlp_proj;
    const char* part = mlp                                          ? "h.*.mlp."
                       : role == Role::norm1 || role == Role::norm2 ? "h.*."
                                                                    : "h.*.attn.";
    d.modules.push_back({(in_block(role) ? part : "") + std::string(to_string(role)), role});
  }
  m.decoder = SharedDecoder(std::move(d));
  deck.zero.knobs.leaves = std::move(leaves);
  deck.zero.knobs.param_persistence_threshold = 0;
  return deck;
}

TEST(LeafModules, ArePlannedLegally) {
  for (const LeafModules& leaves :
       {LeafModules{{"Experts"}, {}, {}}, LeafModules{{}, {"h.1.mlp"}, {"h.0"}},
        LeafModules{{}, {}, {".mlp"}}, LeafModules{{}, {}, {"norm1", "experts"}}})
    for (std::int64_t reuse : {0, 100, 100'000})
      for (int world : {1, 2, 3}) {
        Deck deck = mixture_deck(leaves);
        deck.zero.knobs.max_reuse_distance = reuse;
        deck.zero.knobs.prefetch_bucket_size = reuse;
        for (const bool recompute : {false, true}) {
          deck.run.activation_checkpointing = recompute;
          for (int rank = 0; rank < world; ++rank)
            ASSERT_NO_THROW(require_legal(check(program(deck, world, rank, 2))));
        }
      }
}

// The gathers of the first micro-batch's forward pass.
int gathers(const Program& p) {
  int found = 0;
  for (const Event& e : p.segments[1].events)
    found += e.op == Op::all_gather && e.phase == Phase::forward ? 1 : 0;
  return found;
}

TEST(LeafModules, AreGatheredAtOnce) {
  const int apart = gathers(program(mixture_deck({{}, {}, {}}), 2, 0));
  EXPECT_EQ(gathers(program(mixture_deck({{"models.Experts"}, {}, {}}), 2, 0)), apart - 1)
      << "router and experts together";
  EXPECT_EQ(gathers(program(mixture_deck({{}, {}, {".mlp"}}), 2, 0)), apart - 1 - 2)
      << "and gate, up and down of the other layer";
}

// If a block and a module inside of it are both fine enough, the block is the leaf. Lists of blocks
// are never leaves, because they are not called.
TEST(LeafModules, ByGranularityAreTheOutermostThatAreFine) {
  Deck deck = mixture_deck({{}, {}, {}});
  deck.model.ffn = 8;
  const ModelShape model = build_model_shape(deck.model);
  const std::vector<std::int64_t> all = granularities(model);
  const auto of = [&](std::string_view name) {
    for (std::size_t m = 0; m < all.size(); ++m)
      if (model.modules[m].name == name) return all[m];
    return std::int64_t{0};
  };
  const auto leaves = [&](std::int64_t threshold) {
    LeafModules named{{}, {}, {}};
    named.granularity = threshold;
    std::set<std::string> names;
    for (const int leaf : leaves_of(model, named))
      if (leaf >= 0) names.insert(model.modules[static_cast<std::size_t>(leaf)].name);
    return names;
  };
  const std::int64_t block = of("h.0"), mlp = of("h.0.mlp");
  const std::int64_t hidden = deck.model.hidden, ffn = deck.model.ffn;
  EXPECT_EQ(mlp, 3 * hidden * ffn / 4);
  EXPECT_EQ(of("h"), std::numeric_limits<std::int64_t>::max());
  ASSERT_LT(mlp, std::min(of("h.0.attn"), block));
  EXPECT_EQ(leaves(mlp - 1).count("h.0.mlp"), 0U);
  EXPECT_EQ(leaves(mlp).count("h.0.mlp"), 1U);
  ASSERT_LT(block, of("h.0.attn"));
  EXPECT_EQ(leaves(block).count("h.0"), 1U);
  EXPECT_EQ(leaves(block).count("h.0.mlp"), 0U);
  EXPECT_THROW((void)leaves(of("")), DeckError) << "the model";
}

TEST(LeafModules, OfOthersAreTheInnerOnes) {
  const Deck deck = mixture_deck({{}, {"h.1", "h.1.mlp"}, {}});
  const ModelShape model = build_model_shape(deck.model);
  const std::vector<int> leaves = leaves_of(model, deck.zero.knobs.leaves);
  for (std::size_t m = 0; m < leaves.size(); ++m) {
    const bool inside = model.modules[m].name.starts_with("h.1");
    EXPECT_EQ(leaves[m] >= 0, inside) << model.modules[m].name;
    if (inside) {
      EXPECT_EQ(model.modules[static_cast<std::size_t>(leaves[m])].name, "h.1");
    }
  }
}

TEST(LeafModules, WithoutAnEndOfBackwardAreRefused) {
  for (const char* name : {"", "token_embedding", "h.0.attn"})
    EXPECT_THROW(program(mixture_deck({{}, {name}, {}}), 2, 0), DeckError) << name;
}

TEST(LeafModules, AreRefusedUnderTheKeyThatMadeThemLeaves) {
  const ModelShape model = build_model_shape(mixture_deck({{}, {}, {}}).model);
  const auto refused_key = [&](const LeafModules& named) {
    try {
      (void)leaves_of(model, named);
    } catch (const DeckError& e) {
      return std::string(e.what()).substr(0, std::string(e.what()).find(':'));
    }
    return std::string();
  };
  const std::int64_t all = std::numeric_limits<std::int64_t>::max() - 1;
  LeafModules named{{}, {}, {}};
  named.granularity = all;
  EXPECT_EQ(refused_key(named), "deepspeed.zero_optimization.module_granularity_threshold");
  named.names = {""};
  EXPECT_EQ(refused_key(named), "deepspeed.zero_optimization.leaf_module");
}

}  // namespace
}  // namespace shardmark::test::leaf_modules_test
