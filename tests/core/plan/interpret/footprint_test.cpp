// SPDX-License-Identifier: Apache-2.0
// Rule: the budget of any tier, device, host or files, is exceeded as soon as one byte of it is
// missing, and first where the footprint says that the tier's peak is reached.
#include <gtest/gtest.h>

#include <core/plan/interpret/footprint.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::footprint_test {
namespace {

Program program_in_all_tiers() {
  Deck deck = deepspeed_deck(3);
  deck.run.compute = Compute::none;
  put_in_files(deck, true, false);
  return program(deck, 3, 1);
}

TEST(Footprint, OneMissingByteInAnyTierExceedsItsBudgetAtThePeak) {
  const Program p = program_in_all_tiers();
  const Footprint f = footprint(p);
  Budgets enough;
  for (const Tier t : all_values<Tier>) enough[t] = f[t].peak_bytes;
  EXPECT_FALSE(first_over(p, enough));
  for (const Tier t : all_values<Tier>) {
    SCOPED_TRACE(to_string(t));
    ASSERT_GT(f[t].peak_bytes, 0);
    Budgets alone;
    alone[t] = f[t].peak_bytes;
    EXPECT_FALSE(first_over(p, alone)) << "other tiers have no budget";
    Budgets budgets = enough;
    budgets[t] = f[t].peak_bytes - 1;
    const auto over = first_over(p, budgets);
    ASSERT_TRUE(over);
    EXPECT_EQ(over->tier, t);
    EXPECT_EQ(over->segment, f[t].segment);
    EXPECT_EQ(over->event, f[t].event);
  }
}

}  // namespace
}  // namespace shardmark::test::footprint_test
