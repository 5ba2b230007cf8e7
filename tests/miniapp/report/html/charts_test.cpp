// SPDX-License-Identifier: Apache-2.0
// The drawings of report.html: their shapes are where the figures say. The places are worked out
// here from the sizes of the frame: x from 64 to 944, y from 34 down to 36 above the lower edge.
#include <algorithm>

#include <gtest/gtest.h>

#include <miniapp/report/html/charts.hpp>
#include <tests/support/pattern.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::charts_test {
namespace {

using namespace html;

// Losses 3, 2, 1 at steps 4, 5, 6: the axis is from 0.9 to 3.1, 5 % wider on both sides.
TEST(Charts, losses_are_at_their_steps_and_values) {
  Result r;
  for (int i = 0; i < 3; ++i) {
    LossRow& row = r.rows.emplace_back();
    row.step = 4 + i, row.loss = 3 - i;
  }
  r.rows[1].skipped = true;
  Deck deck;
  deck.run.warmup = 5;
  const std::string chart = draw(loss_chart(deck, r), chart_width);
  EXPECT_NE(chart.find("M64.0 43.5L504.0 139.0L944.0 234.5"), std::string::npos) << chart;
  EXPECT_NE(chart.find("<rect x=\"64.00\" y=\"34.0\" width=\"440.00\" height=\"210.0\" "
                       "class=\"band\""),
            std::string::npos)
      << "the warm-up ends at step 5: " << chart;
  EXPECT_NE(chart.find("<line x1=\"504.0\" y1=\"244.0\" x2=\"504.0\" y2=\"235.0\" "
                       "class=\"skipped\""),
            std::string::npos)
      << chart;
  EXPECT_NE(chart.find("1.0000</text>"), std::string::npos) << "the last loss";
}

// The first two events of a step, with so many bytes held after them.
StepTrace trace_of(const Program& p, std::int64_t first_bytes, std::int64_t second_bytes) {
  StepTrace trace;
  const int micro = p.steps.back().micros.runs()[0].segments[0];
  for (int e = 0; e < 2; ++e) {
    TracedEvent& t = trace.events.emplace_back();
    t.segment = micro, t.event = e;
    t.held_bytes[0] = e == 0 ? first_bytes : second_bytes;
  }
  trace.events[0].begin_ns = 5'000'000, trace.events[0].end_ns = 6'000'000;
  trace.events[1].begin_ns = 6'000'000, trace.events[1].end_ns = 9'000'000;
  return trace;
}

// The axis ends 8 % above the most: the arena's 4 KiB here, which is at 1 / 1.08 of 250 units.
TEST(Charts, memory_is_at_its_event_and_size) {
  Program p = program(gpt2_deck(3), 2, 0);
  p.memory_mode = MemoryMode::pooled;
  Result r;
  const std::int64_t arena = std::int64_t{1} << 30;
  r.tiers[0].measured_peak = arena;
  r.trace = trace_of(p, arena / 2, arena / 4);
  const std::string chart = draw(memory_chart(p, r, Tier::device), chart_width);
  EXPECT_NE(chart.find("M64.0 168.3H504.0V226.1H944.0V226.1\" class=\"measured\""),
            std::string::npos)
      << chart;
  EXPECT_NE(chart.find("<line x1=\"64.0\" y1=\"52.5\" x2=\"944.0\" y2=\"52.5\" class=\"arena\""),
            std::string::npos)
      << chart;
  EXPECT_NE(chart.find(">MiB</text>"), std::string::npos) << "1 GiB is 1024 MiB";
}

// A budget of four thirds of the arena is above it; the axis then ends 8 % above the budget.
TEST(Charts, memory_has_the_budget_as_a_line) {
  Program p = program(gpt2_deck(3), 2, 0);
  p.memory_mode = MemoryMode::pooled;
  Result r;
  const std::int64_t arena = std::int64_t{3} << 30;
  r.tiers[Tier::device].measured_peak = arena;
  r.tiers[Tier::device].budget = arena / 3 * 4;
  r.trace = trace_of(p, arena, arena);
  const std::string chart = draw(memory_chart(p, r, Tier::device), chart_width);
  EXPECT_NE(chart.find("y1=\"52.5\" x2=\"944.0\" y2=\"52.5\" class=\"limit\""), std::string::npos)
      << chart;
  EXPECT_NE(chart.find("budget: 4 GiB"), std::string::npos);
  EXPECT_EQ(draw(memory_chart(p, r, Tier::host), chart_width), "") << "it is not used";
}

// What is predicted stacks up to the live bytes after each event.
TEST(Charts, predicted_memory_stacks_up_to_the_plans) {
  Program p = program(gpt2_deck(3), 2, 0);
  p.memory_mode = MemoryMode::strict;
  Result r;
  r.trace = trace_of(p, 0, 0);
  const auto live = live_after(p, r.trace.events[0].segment);
  double sum[2] = {};
  for (int e = 0; e < 2; ++e)
    for (const std::int64_t bytes : live[static_cast<std::size_t>(e)][Tier::device])
      sum[e] += static_cast<double>(bytes);
  const double most = std::max(sum[0], sum[1]) * 1.08;
  const auto y = [&](int e) { return 284 - 250 * sum[e] / most; };
  const auto areas = find_matches(draw(memory_chart(p, r, Tier::device), chart_width),
                                  "d=\"M64.0 ([0-9.]+)H504.0V([0-9.]+)H944[^\"]*\" class=\"area");
  ASSERT_FALSE(areas.empty());
  EXPECT_NEAR(std::stod(areas.back()[1]), y(0), 0.06);
  EXPECT_NEAR(std::stod(areas.back()[2]), y(1), 0.06);
}

// One event of 1 ms and one of 3 ms take a quarter and three quarters of the width.
TEST(Charts, events_are_as_wide_as_they_are_long) {
  Program p = program(gpt2_deck(0), 2, 0);
  p.memory_mode = MemoryMode::strict;
  Result r;
  r.trace = trace_of(p, 0, 0);
  r.trace.events[1].exposed_ns = 1'000'000;
  const auto boxes = find_matches(
      draw(lanes_chart(p, r.trace), chart_width),
      "<rect x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\"[^>]*class=\"([a-z]+)\"");
  const double width = 820;  // from 124 to 944
  double waiting = 0, working = 0, end = 0;
  for (const auto& box : boxes) {
    if (box[3] == "lane") {
      EXPECT_EQ(std::stod(box[2]), width);
    }
    if (box[3] == "lane") continue;
    (box[3] == "waiting" ? waiting : working) += std::stod(box[2]);
    end = std::max(end, std::stod(box[1]) + std::stod(box[2]));
    if (box[3] == "waiting") {
      EXPECT_NEAR(std::stod(box[1]), 124 + width / 4, 0.02);
    }
  }
  EXPECT_NEAR(waiting, width / 4, 0.02);
  EXPECT_NEAR(working, 3 * width / 4, 0.05);
  EXPECT_NEAR(end, 944, 0.02);
}

}  // namespace
}  // namespace shardmark::test::charts_test
