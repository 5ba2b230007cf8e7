// SPDX-License-Identifier: Apache-2.0
// Rules of zero_quantized_gradients (ZeRO++'s qgZ): each gradient of two dimensions is sent in two
// steps of two all_to_all, within nodes and between them; one of one dimension, or that does not
// divide, is reduce-scattered by itself; and on one node nothing changes.
#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/partition/gradient_groups.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::quantized_gradients_test {
namespace {

Deck quantized_deck(std::int64_t node_ranks, Dtype model = Dtype::fp16) {
  Deck d = quantizable_deck();
  PrecisionSpec& p = d.zero.precision;
  p.model = p.grad_accum = model;
  p.comm = Dtype::fp16;
  d.zero.knobs.quantized_gradients = true;
  d.zero.knobs.reduce_bucket_size = 8000;
  d.machine.ranks_per_node = node_ranks;
  return d;
}

TEST(GradientGroups, AreThoseOfDeepSpeed) {
  EXPECT_EQ(gradient_groups({2304}, 2304, 4).groups, 0) << "one dimension";
  EXPECT_EQ(gradient_groups({7, 7}, 49, 2).groups, 0) << "does not divide";
  EXPECT_EQ(gradient_groups({6, 3}, 18, 3).groups, 6);
  EXPECT_FALSE(gradient_groups({6, 3}, 18, 3).possible) << "no multiple of 8";
  const GradientGroups wide = gradient_groups({768, 3072}, 768 * 3072, 8);
  EXPECT_EQ(wide.groups, 3072);
  EXPECT_EQ(wide.group_elems, 768);
  EXPECT_TRUE(wide.possible);
  EXPECT_EQ(gradient_groups({16, 64}, 1024, 128).groups, 128) << "as many as there are ranks";
  EXPECT_FALSE(gradient_groups({50257, 768}, 50257 * 768, 4).possible) << "vocabulary of GPT-2";
  EXPECT_FALSE(gradient_groups({50304, 40968}, std::int64_t{50304} * 40968, 4).possible);
  EXPECT_TRUE(gradient_groups({8, 16, 32}, 4096, 4).possible);
}

TEST(QuantizedGradients, AreLegalEverywhere) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
    for (auto [world, node] : {std::pair{2, 1}, {3, 1}, {4, 2}, {6, 2}, {8, 4}})
      for (const Reductions reductions : {Reductions::native, Reductions::ordered})
        for (int variant = 0; variant < 4; ++variant) {
          Deck d = quantized_deck(node, dtype);
          d.model.hidden = world % 3 == 0 ? 48 : 64;
          d.run.reductions = reductions;
          d.zero.knobs.contiguous_gradients = variant != 1;
          d.zero.knobs.overlap_comm = variant != 2;
          d.zero.knobs.hpz_partition_size = variant == 2 ? node : 1;
          d.zero.knobs.quantized_weights = variant == 2 && world % 3 != 0;
          d.zero.offload_optimizer.enabled = variant == 3;
          if (variant == 1) d.zero.knobs.reduce_bucket_size = 3000;  // smaller than some gradients
          auto program_of = [&](int rank) { return program(d, world, rank, 2); };
          for (int rank : {0, world - 1}) ASSERT_NO_THROW(require_legal(check(program_of(rank))));
          ASSERT_NO_THROW(require_legal(check_ranks(ranks_to_check(world, 0), program_of)));
        }
}

TEST(QuantizedGradients, AreReduceScatteredOnOneNode) {
  for (const std::int64_t node : {4, 8}) {
    Deck d = quantized_deck(node, Dtype::bf16);
    d.zero.precision.comm = Dtype::bf16;
    const std::string quantized = print_text(program(d, 4, 1));
    d.zero.knobs.quantized_gradients = false;
    EXPECT_EQ(quantized, print_text(program(d, 4, 1)));
  }
}

TEST(QuantizedGradients, TakeTheRanksPerNodeFromTheProfileOtherwise) {
  Deck d = quantized_deck(2);
  const std::string want = print_text(program(d, 4, 1));
  d.machine.ranks_per_node = 0;
  Profile profile;
  profile.ranks_per_node = 2;
  EXPECT_EQ(print_text(build_program(d, batch(4), 4, 1, profile)), want);
}

std::vector<const Event*> reductions_of(const Program& p) {
  std::vector<const Event*> list;
  for (const SegmentRun& run : runs_of(p.steps[step_path(p, false).back()], false))
    for (int segment : run.segments)
      for (const Event& e : p.segments[segment].events)
        if (e.op == Op::all_to_all || e.op == Op::reduce_scatter) list.push_back(&e);
  return list;
}

// Collective by collective, with dtype, elements and group, for each gradient in turn.
TEST(QuantizedGradients, AreSentInTwoSteps) {
  Deck d = quantized_deck(2);
  d.zero.knobs.reduce_bucket_size = 1'000'000;  // one bucket: in order of the parameters
  const Program p = program(d, 4, 3);
  const std::vector<const Event*> events = reductions_of(p);
  std::size_t at = 0;
  int quantized = 0, scattered = 0;
  const auto expect = [&](Op op, Dtype dtype, std::int64_t elems, std::string_view group) {
    ASSERT_LT(at, events.size());
    const Event& e = *events[at++];
    EXPECT_EQ(e.op, op);
    EXPECT_EQ(e.dtype, dtype);
    EXPECT_EQ(e.elems, elems);
    EXPECT_EQ(p.groups[e.group].name, group);
  };
  for (const Param& param : p.model.params) {
    SCOPED_TRACE(param.name);
    const std::int64_t groups = gradient_groups(param.shape, param.elems, 4).groups;
    if (groups == 0) {
      expect(Op::reduce_scatter, Dtype::fp16, (param.elems + 3) / 4 * 4, "world");
      ++scattered;
      continue;
    }
    expect(Op::all_to_all, Dtype::int8, param.elems / 2, "node");
    expect(Op::all_to_all, Dtype::fp32, groups, "node");
    expect(Op::all_to_all, Dtype::int8, param.elems / 4, "nodes");
    expect(Op::all_to_all, Dtype::fp32, groups / 2, "nodes");
    ++quantized;
  }
  EXPECT_EQ(at, events.size());
  EXPECT_GT(quantized, 5);
  EXPECT_GT(scattered, 5);
}

// A plan whose parts were exchanged with other ranks than those whose parts it adds up is illegal.
TEST(QuantizedGradients, AreAddedUpByTheRanksThatExchangedThem) {
  Program p = program(quantized_deck(2), 4, 1);
  require_legal(check(p));
  const auto is_exchange = [&](const Event& e) { return e.op == Op::all_to_all; };
  Event& e = find_event(p, "step0.micro0", is_exchange);
  e.group = e.group == 1 ? 2 : 1;
  std::string text;
  for (const Violation& v : check(p)) text += v.what + "\n";
  EXPECT_NE(text.find("which no all_to_all of group node delivered"), std::string::npos) << text;
}

std::string refusal(const Deck& d, int world) {
  try {
    program(d, world, 0);
  } catch (const DeckError& error) {
    return error.what();
  }
  return "";
}

TEST(QuantizedGradients, ThatDeepSpeedCannotSendAreRefused) {
  EXPECT_NE(refusal(quantized_deck(2), 5).find("5 ranks are no whole number of nodes of 2"),
            std::string::npos);
  Deck other_type = quantized_deck(2);
  other_type.zero.precision.comm = Dtype::bf16;
  EXPECT_NE(refusal(other_type, 4).find("communication_data_type to \"fp16\""), std::string::npos);
  EXPECT_EQ(refusal(other_type, 2), "") << "one node";
  Deck vocabulary = quantized_deck(2);
  vocabulary.model.vocab = 97;  // 16 divides 97 x 64 elements, but 8 ranks do not divide 97 groups
  EXPECT_NE(refusal(vocabulary, 8).find("head.weight, 97 x 64: it quantizes 97 groups of 64"),
            std::string::npos)
      << refusal(vocabulary, 8);
}

}  // namespace
}  // namespace shardmark::test::quantized_gradients_test
