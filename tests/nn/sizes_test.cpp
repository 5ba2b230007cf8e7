// SPDX-License-Identifier: Apache-2.0
// The layouts that kernels address memory with agree with the model's shape, and do not overlap
// where tensors live together; sizes beyond 63 bits are refused.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/gpt2_sizes.hpp>
#include <core/plan/model_shape.hpp>

namespace shardmark {
namespace {

ModelSpec spec_of(bool tied) {
  ModelSpec s;
  s.layers = 2, s.hidden = 40, s.heads = 5, s.sequence = 20, s.vocab = 53, s.tied_head = tied;
  return s;
}

TEST(gpt2_sizes, parameter_offsets_agree_with_the_model_shape) {
  for (const bool tied : {false, true}) {
    const ModelShape shape = build_model_shape(spec_of(tied));
    const Gpt2Dims d = gpt2_dims(shape.spec, 1);
    const EmbedParams e = embed_params(d);
    const BlockParams b = block_params(d);
    const HeadParams h = head_params(d);
    std::map<std::string, std::int64_t> expected{{"wte", e.wte}, {"wpe", e.wpe}};
    for (const std::string block : {"block0.", "block1."}) {
      expected[block + "ln_1.weight"] = b.ln1_weight;
      expected[block + "ln_1.bias"] = b.ln1_bias;
      expected[block + "attn.qkv.weight"] = b.qkv_weight;
      expected[block + "attn.qkv.bias"] = b.qkv_bias;
      expected[block + "attn.proj.weight"] = b.attn_proj_weight;
      expected[block + "attn.proj.bias"] = b.attn_proj_bias;
      expected[block + "ln_2.weight"] = b.ln2_weight;
      expected[block + "ln_2.bias"] = b.ln2_bias;
      expected[block + "mlp.fc.weight"] = b.fc_weight;
      expected[block + "mlp.fc.bias"] = b.fc_bias;
      expected[block + "mlp.proj.weight"] = b.mlp_proj_weight;
      expected[block + "mlp.proj.bias"] = b.mlp_proj_bias;
    }
    expected["ln_f.weight"] = h.ln_weight;
    expected["ln_f.bias"] = h.ln_bias;
    if (!tied) expected["head.weight"] = h.head_weight;
    EXPECT_EQ(shape.params.size(), expected.size());
    for (const Param& p : shape.params)
      EXPECT_EQ(p.first_elem - shape.units[p.unit].first_elem, expected.at(p.name)) << p.name;
    EXPECT_EQ(shape.units[0].elems, e.elems);
    EXPECT_EQ(shape.units[1].elems, b.elems);
    EXPECT_EQ(shape.units[3].elems, h.elems);
  }
}

TEST(gpt2_sizes, what_forward_saves_is_small_and_has_no_square_of_the_sequence) {
  ModelSpec s = spec_of(false);
  const std::int64_t once = saved_elems(gpt2_dims(s, 1), UnitKind::block);
  s.sequence *= 64;
  const std::int64_t many = saved_elems(gpt2_dims(s, 1), UnitKind::block);
  EXPECT_LE(many, 64 * once);
  const std::int64_t rows = s.sequence;
  EXPECT_LT(many, rows * (9 * s.hidden + s.heads + 4) + 10 * 16);
}

TEST(gpt2_sizes, workspace_ends_with_the_products_scratch) {
  const Gpt2Dims d = gpt2_dims(spec_of(false), 3);
  for (const UnitKind unit : {UnitKind::block, UnitKind::head})
    for (const Kernel k : {Kernel::forward, Kernel::backward})
      EXPECT_EQ(workspace_bytes(d, unit, k, 5000), workspace_bytes(d, unit, k, 0) + 5000);
  EXPECT_EQ(workspace_bytes(d, UnitKind::embeddings, Kernel::backward, 5000), 0);
}

TEST(gpt2_sizes, counts_beyond_63_bits_are_refused) {
  ModelSpec s = spec_of(false);
  s.sequence = std::int64_t{1} << 40;
  EXPECT_THROW(gpt2_dims(s, std::int64_t{1} << 30), PlanError);
  EXPECT_THROW(saved_elems(gpt2_dims(s, 1 << 20), UnitKind::block), PlanError);
}

}  // namespace
}  // namespace shardmark
