// SPDX-License-Identifier: Apache-2.0
// Rule: what a transformer's plans keep between forward and backward is right, with and without
// activation checkpointing, for every family, schedule and stage.
#include <gtest/gtest.h>

#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/model/transformer_sizes.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::compute_writer_test {
namespace {

constexpr Category activation = Category::activation;

Deck deck_of(Family family, Schedule schedule, int stage, std::int64_t layers, bool recompute) {
  Deck d = gpt2_deck(stage, layers);
  d.model.family = family;
  d.model.kv_heads = 1, d.model.ffn = 40;
  d.run.schedule = schedule;
  d.run.activation_checkpointing = recompute;
  return d;
}

template<class F>
void for_each_plan(F f) {
  for (const Family family : {Family::gpt2, Family::llama})
    for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
      for (int stage : {0, 1, 2, 3}) {
        SCOPED_TRACE(std::string(to_string(family)) + " " + std::string(to_string(schedule)) + " " +
                     std::to_string(stage));
        f(family, schedule, stage);
      }
}

TEST(Compute, ABlockKeepsItsActivationsOrOnlyItsInput) {
  for_each_plan([](Family family, Schedule schedule, int stage) {
    for (const bool recompute : {false, true}) {
      const auto peak = [&](std::int64_t layers) {
        const Deck d = deck_of(family, schedule, stage, layers, recompute);
        return footprint(program(d, 2, 0))[Tier::device].category_peaks[activation];
      };
      const Deck d = deck_of(family, schedule, stage, 1, recompute);
      const TransformerDims dims = transformer_dims(d.model, 2);
      const std::int64_t input = dims.rows() * dims.hidden * dtype_bytes(Dtype::fp32);
      const std::int64_t saved = saved_elems(dims, UnitKind::block) * dtype_bytes(Dtype::fp32);
      EXPECT_EQ(peak(9) - peak(4), 5 * (input + (recompute ? 0 : saved)));
    }
  });
}

TEST(Compute, WhatABlockDroppedIsNotReadBeforeItIsMadeAgain) {
  for_each_plan([](Family family, Schedule schedule, int stage) {
    Program p = program(deck_of(family, schedule, stage, 2, true), 2, 0);
    EXPECT_TRUE(check(p).empty());
    int again = 0;
    for (Segment& s : p.segments)
      for (Event& e : s.events) {
        if (e.kernel != Kernel::forward || e.phase != Phase::backward) continue;
        ++again;
        const Role role = p.model.modules[e.module].role;
        EXPECT_NE(role, Role::mlp_proj) << "its output is of no use";
        if (role == Role::norm1) e.operands.count = 0;  // the first event that writes what is saved
      }
    EXPECT_GE(again, 2 * 5);
    EXPECT_FALSE(check(p).empty());
  });
}

}  // namespace
}  // namespace shardmark::test::compute_writer_test
