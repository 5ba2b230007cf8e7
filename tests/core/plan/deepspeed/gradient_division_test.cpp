// SPDX-License-Identifier: Apache-2.0
// Rule: however gradients are divided, before or after their sum, in copies or by themselves, a
// gradient is divided by the number of ranks in all. `prescale_gradients` divides by all of it
// before the sum, `gradient_predivide_factor` by the factor.
#include <gtest/gtest.h>

#include <core/plan/plan.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::gradient_division_test {
namespace {

struct Division {
  double before = 1, after = 1;
};

// One tensor, so each division is that of its gradient.
Division division_of(int stage, int world, const ZeroKnobs& knobs) {
  Deck deck;
  deck.zero.stage = stage;
  deck.zero.knobs = knobs;
  deck.zero.knobs.param_persistence_threshold = 0;
  deck.run.compute = Compute::none;
  deck.run.schedule = Schedule::deepspeed;
  deck.model.family = Family::list;
  deck.model.modules.push_back({"m", {240}});
  const Program p = build_program(deck, {world, 1, 1}, world, 0, {});
  Division result;
  bool summed = false;
  for (const int segment : segments_of(p.steps.back(), false))
    for (const Event& e : p.segments[segment].events) {
      summed = summed || (is_reduction(e.op) && e.elems > 1);
      if (e.divisor == 1 || operand_of(p, e, 0).elems == 1)
        continue;  // of a norm, which is summed over replicas
      (summed ? result.after : result.before) *= e.divisor;
    }
  return result;
}

TEST(GradientDivision, is_by_the_ranks_in_all) {
  for (const int world : {2, 3, 4})
    for (const int stage : {0, 1, 2, 3})
      for (const bool contiguous : {true, false})
        for (const bool scatter : {true, false})
          for (const bool prescale : {false, true})
            for (const double factor : {1.0, 2.0, static_cast<double>(world)}) {
              const bool scales = stage < 2 || !scatter;
              if ((prescale || factor != 1) && (!scales || stage == 3)) continue;
              ZeroKnobs knobs;
              knobs.contiguous_gradients = contiguous, knobs.reduce_scatter = scatter;
              knobs.prescale_gradients = prescale, knobs.gradient_predivide_factor = factor;
              SCOPED_TRACE("stage " + std::to_string(stage) + ", ranks " + std::to_string(world) +
                           (contiguous ? ", contiguous" : "") + (scatter ? ", scatter" : "") +
                           (prescale ? ", prescale" : "") + ", factor " + std::to_string(factor));
              const Division d = division_of(stage, world, knobs);
              EXPECT_DOUBLE_EQ(d.before * d.after, world);
              if (prescale && !(scatter && stage == 1)) {
                EXPECT_DOUBLE_EQ(d.before, world);
              }
            }
}

}  // namespace
}  // namespace shardmark::test::gradient_division_test
