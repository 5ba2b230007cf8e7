// SPDX-License-Identifier: Apache-2.0
// What a unit saves and the scratch that it takes are small and add up; sizes beyond 63 bits are
// refused.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/model/model_shape.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark::test::sizes_test {
namespace {

ModelSpec spec_of(bool tied) {
  ModelSpec s;
  s.layers = 2, s.hidden = 40, s.heads = 5, s.sequence = 20, s.vocab = 53, s.tied_head = tied;
  return s;
}

ModelSpec llama_spec() {
  ModelSpec s = spec_of(false);
  s.family = Family::llama;
  s.heads = 4, s.kv_heads = 1, s.ffn = 56;
  return s;
}

TEST(transformer_sizes, what_forward_saves_is_small_and_has_no_square_of_the_sequence) {
  ModelSpec s = spec_of(false);
  const std::int64_t once = saved_elems(transformer_dims(s, 1), UnitKind::block);
  s.sequence *= 64;
  const std::int64_t many = saved_elems(transformer_dims(s, 1), UnitKind::block);
  EXPECT_LE(many, 64 * once);
  const std::int64_t rows = s.sequence;
  EXPECT_LT(many, rows * (11 * s.hidden + s.heads + 4) + 12 * 16);
}

TEST(transformer_sizes, a_llama_saves_keys_and_values_of_its_own_heads_only) {
  ModelSpec s = llama_spec();
  const std::int64_t shared = saved_elems(transformer_dims(s, 1), UnitKind::block);
  s.kv_heads = s.heads;
  const std::int64_t own = saved_elems(transformer_dims(s, 1), UnitKind::block);
  EXPECT_NEAR(own - shared, 2 * s.sequence * (s.hidden - s.hidden / 4), 2 * 16);
  EXPECT_LT(own, s.sequence * (7 * s.hidden + 2 * s.ffn + s.heads + 2) + 12 * 16);
}

TEST(transformer_sizes, workspace_ends_with_the_products_scratch) {
  for (const ModelSpec& spec : {spec_of(false), llama_spec()}) {
    const TransformerDims d = transformer_dims(spec, 3);
    for (const UnitKind unit : {UnitKind::block, UnitKind::head})
      for (const Kernel k : {Kernel::forward, Kernel::backward})
        EXPECT_EQ(workspace_bytes(d, unit, k, 5000), workspace_bytes(d, unit, k, 0) + 5000);
    EXPECT_EQ(workspace_bytes(d, UnitKind::embeddings, Kernel::backward, 5000), 0);
  }
}

TEST(transformer_sizes, sixteen_bits_halve_what_is_saved_but_figures_of_rows) {
  for (const bool tied : {false, true}) {
    const TransformerDims wide = transformer_dims(spec_of(tied), 3),
                          half = transformer_dims(spec_of(tied), 3, Dtype::bf16);
    const std::int64_t rows = wide.rows(), lines = 16 * 64;
    const auto bytes = [](const TransformerDims& d, UnitKind unit) {
      return saved_elems(d, unit) * dtype_bytes(d.dtype);
    };
    // Four values per row and one per row and head; then one loss and two values per row.
    const std::int64_t block = rows * (4 + wide.heads) * 4, head = rows * 3 * 4;
    EXPECT_NEAR(double(2 * bytes(half, UnitKind::block) - bytes(wide, UnitKind::block)),
                double(block), double(lines));
    EXPECT_NEAR(double(2 * bytes(half, UnitKind::head) - bytes(wide, UnitKind::head)), double(head),
                double(lines));
  }
}

TEST(transformer_sizes, counts_beyond_63_bits_are_refused) {
  ModelSpec s = spec_of(false);
  s.sequence = std::int64_t{1} << 40;
  EXPECT_THROW(transformer_dims(s, std::int64_t{1} << 30), PlanError);
  EXPECT_THROW(saved_elems(transformer_dims(s, 1 << 20), UnitKind::block), PlanError);
}

}  // namespace
}  // namespace shardmark::test::sizes_test
