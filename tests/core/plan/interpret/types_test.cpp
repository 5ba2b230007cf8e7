// SPDX-License-Identifier: Apache-2.0
// Rule: every interpreter understands all features of events, also those that `paper` does not use
// (groups, roots, tiers, copies, order edges between three lanes, micro-batches). The programs are
// written by hand.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/write/plan_writer.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::types_test {
namespace {

// Rank 1 of 2: a gradient is computed on the device, reduced to rank 1 of the group of both ranks,
// and copied to the host; the updated parameters come back and are broadcast in the group.
class ByHand : public ::testing::Test {
 protected:
  ByHand() {
    ModelSpec spec;
    spec.family = Family::list;
    spec.modules = {{"w", {48}}};
    p.world = 2;
    p.mesh = Mesh(p.world, p.rank, {});
    p.rank = 1;
    p.batch = {2, 1, 1};
    p.model = build_model_shape(spec);
    p.partition = build_partition(p.model, 2, 1);
    p.groups = {{"world", {}}, {"pair", {0, 1}}};
    PlanWriter w(p);
    param = w.slot("param", Category::param, Dtype::bf16, 48);
    grad = w.slot("grad", Category::bucket, Dtype::fp32, 48);
    host_grad = w.slot("host_grad", Category::grad, Dtype::fp32, 48, Tier::host);
    master = w.slot("master", Category::master, Dtype::fp32, 48, Tier::host);
    const int rounded = w.slot("rounded", Category::staging, Dtype::bf16, 48, Tier::host);
    const std::array<int, 1> params{0};
    auto compute = [&](Kernel k, std::vector<Operand> ops) { w.compute(k, ops, params); };

    w.begin(SegmentKind::init, "init", Gradients::none);
    w.acquire(param);
    w.acquire(master);
    compute(Kernel::init_param, {w.write(param)});
    compute(Kernel::zero, {w.write(master)});
    w.end(Gradients::none);

    w.begin(SegmentKind::micro, "micro", Gradients::none);
    w.phase(Phase::backward, 0);
    w.acquire(grad);
    compute(Kernel::backward, {w.write(grad), w.read(param)});
    const std::array<Operand, 2> in_place{w.read(grad), w.write(grad)};
    w.collective(Op::reduce, Reduction::sum, Dtype::fp32, 48, in_place, params, 1, 1);
    w.acquire(host_grad);
    w.copy(w.read(grad), w.write(host_grad));
    w.release(grad);
    w.end(Gradients::reduced);

    w.begin(SegmentKind::boundary, "boundary", Gradients::reduced);
    w.end(Gradients::reduced);

    w.begin(SegmentKind::update, "update", Gradients::reduced);
    w.phase(Phase::step);
    compute(Kernel::adamw, {w.update(master), w.read(host_grad)});
    w.release(host_grad);
    w.acquire(rounded);
    compute(Kernel::convert, {w.write(rounded), w.read(master)});
    w.copy(w.read(rounded), w.write(param));
    w.release(rounded);
    const std::array<Operand, 2> both{w.read(param), w.write(param)};
    w.collective(Op::broadcast, Reduction::none, Dtype::bf16, 48, both, {}, 1, 1);
    w.end(Gradients::none);
    Step step;
    step.micros = {1}, step.boundary = 2, step.update = 3;
    p.steps.push_back(step);
  }
  Program p;
  int param, grad, host_grad, master;
};

TEST_F(ByHand, IsLegal) {
  for (const Violation& v : check(p))
    ADD_FAILURE() << to_string(v.rule) << " " << v.where << ": " << v.what;
}

TEST_F(ByHand, EdgesOrderAllThreeLanes) {
  const Segment& s = *p.find("micro");
  auto after = [&](std::size_t event) {
    const Range r = s.events[event].after;
    return std::vector<int>(p.edges.begin() + r.first, p.edges.begin() + r.first + r.count);
  };
  // The reduce comes after the backward that computes the gradient.
  EXPECT_EQ(after(2), std::vector<int>{1});
  EXPECT_EQ(after(4), (std::vector<int>{
                          2, 3}));  // the copy comes after the reduce, into memory that is acquired
  EXPECT_EQ(after(5), std::vector<int>{4});  // the release comes after the copy that reads the slot
}

TEST_F(ByHand, EachLostEdgeIsARace) {
  for (const std::string_view name : {"micro", "update"}) {
    const std::size_t events = p.find(name)->events.size();
    for (std::size_t i = 0; i < events; ++i) {
      Program broken = p;
      for (Segment& s : broken.segments)
        if (s.name == name) {
          if (s.events[i].after.count == 0) continue;
          s.events[i].after.count = 0;
          EXPECT_FALSE(check(broken).empty()) << name << ", event " << i;
        }
    }
  }
}

TEST_F(ByHand, TiersAreAccountedApart) {
  const Footprint f = footprint(p);
  EXPECT_EQ(f[Tier::device].peak_bytes, 96 + 192);
  EXPECT_EQ(f[Tier::host].peak_bytes, 192 + 192);
  EXPECT_EQ(f[Tier::host].at_peak[Category::master], 192);
  EXPECT_TRUE(over_budget(p, {std::nullopt, 383}).has_value());
  EXPECT_FALSE(over_budget(p, {std::nullopt, 384}).has_value());
}

TEST_F(ByHand, GroupsRootsAndReductionsArePrintedAndCounted) {
  const auto rows = print_json(p, {}, "").at("steps").at("0");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("op"), "reduce");
  EXPECT_EQ(rows[0].at("phase"), "b0");
  EXPECT_EQ(rows[0].at("root"), 1);
  EXPECT_EQ(rows[0].at("group"), "pair");
  EXPECT_EQ(rows[0].at("reduce_op"), "sum");
  EXPECT_EQ(rows[1].at("op"), "broadcast");
  EXPECT_EQ(rows[1].at("dtype"), "bf16");
  const Volume v = steady_volume(p);
  EXPECT_EQ(v.at(Op::reduce), (Traffic{1, 48, 192}));
  EXPECT_EQ(v.at(Op::broadcast), (Traffic{1, 48, 96}));
  EXPECT_NE(print_text(p).find("copy           host_grad <- grad"), std::string::npos);
  EXPECT_NE(print_dot(p).find("style=dashed"), std::string::npos);
}

TEST_F(ByHand, ARankOutsideTheGroupMayNotCommunicateInIt) {
  p.rank = 3;
  const auto all = check(p);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const Violation& v) { return v.rule == Rule::collective; }));
}

TEST(MicroBatches, AreNumberedInEventsAndRows) {
  const Program p = program(gpt2_deck(2), 2, 0, 4);
  const auto rows = print_json(p, {}, "").at("steps").at("steady");
  for (int g = 0; g < 4; ++g)
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const auto& r) {
      return r.at("phase") == "b" + std::to_string(g);
    })) << g;
  std::vector<std::string> names;
  for (int i : segments_of(p.steps[0], false)) names.push_back(p.segments[i].name);
  EXPECT_EQ(names, (std::vector<std::string>{"micro_first", "micro_middle", "micro_middle",
                                             "micro_last", "boundary", "update"}));
}

}  // namespace
}  // namespace shardmark::test::types_test
