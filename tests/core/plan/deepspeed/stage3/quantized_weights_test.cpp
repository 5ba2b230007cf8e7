// SPDX-License-Identifier: Apache-2.0
// Rules of zero_quantized_weights (ZeRO++'s qwZ): each fetch of parameters becomes an all_gather of
// int8 and one of fp32 scales, and nothing else changes.
#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/plan/partition/weight_groups.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::quantized_weights_test {
namespace {

// DeepSpeed's search, as its source has it: groups are added until all are multiples of 8.
std::int64_t groups_of_deepspeed(std::int64_t n) {
  std::int64_t groups = (n + 7999) / 8000;
  while (groups < n && n % (8 * groups) != 0) ++groups;
  while (n % (16 * groups) == 0 && n / groups > 8000) groups *= 2;
  return n % (8 * groups) == 0 && n / groups < 16000 && n > groups ? groups : 0;
}

TEST(WeightGroups, AreThoseOfDeepSpeed) {
  for (std::int64_t n = 1; n < 70'000; n += n < 1000 ? 1 : 4) {
    const std::int64_t groups = groups_of_deepspeed(n);
    ASSERT_EQ(weight_group_elems(n), groups == 0 ? 0 : n / groups) << n;
  }
  EXPECT_EQ(weight_group_elems(std::int64_t{1} << 40), 4096);
}

// Each rank of up to `ranks` ranks has a multiple of 8 of each parameter.
Deck quantized_deck(std::int64_t ranks, Dtype dtype = Dtype::fp16) {
  Deck d = deepspeed_deck(3);
  d.model.hidden = 8 * ranks;
  d.model.heads = 2;
  PrecisionSpec& p = d.zero.precision;
  p.model = p.comm = p.grad_accum = dtype;
  d.zero.knobs.quantized_weights = true;
  return d;
}

// Every parameter is fetched in forward and again in backward.
void gather_always(Deck& d) {
  d.zero.knobs.max_reuse_distance = d.zero.knobs.prefetch_bucket_size = 0;
  d.zero.knobs.param_persistence_threshold = 0;
}

TEST(QuantizedWeights, AreLegalEverywhere) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
    for (auto [world, size] : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 2}, {6, 3}})
      for (bool sequential : {false, true})
        for (bool on_host : {false, true}) {
          Deck d = quantized_deck(2 * world, dtype);
          d.zero.knobs.hpz_partition_size = on_host ? 1 : size;
          d.zero.knobs.allgather_sequential = sequential;
          d.zero.knobs.use_all_reduce_for_fetch_params = sequential;
          d.zero.offload_param.enabled = on_host;
          auto program_of = [&](int rank) { return program(d, world, rank, 2); };
          for (int rank : {0, world - 1}) ASSERT_NO_THROW(require_legal(check(program_of(rank))));
          ASSERT_NO_THROW(require_legal(check_ranks(ranks_to_check(world, 0), program_of)));
        }
}

TEST(QuantizedWeights, OfOneRankAreNotSent) {
  Deck d = quantized_deck(2);
  const std::string quantized = print_text(program(d, 1, 0));
  d.zero.knobs.quantized_weights = false;
  EXPECT_EQ(quantized, print_text(program(d, 1, 0)));
}

TEST(QuantizedWeights, HalveTheBytesOfEachGather) {
  Deck d = quantized_deck(16);
  gather_always(d);
  const Program p = program(d, 4, 3);
  d.zero.knobs.quantized_weights = false;
  const Program without = program(d, 4, 3);
  std::int64_t values = 0, scales = 0, calls = 0, message = 0;
  for (const SegmentRun& run : runs_of(p.steps[step_path(p, false).back()], false))
    for (int segment : run.segments)
      for (const Event& e : p.segments[segment].events) {
        if (e.op != Op::all_gather) continue;
        ++calls;
        EXPECT_TRUE(e.dtype == Dtype::int8 || e.dtype == Dtype::fp32) << to_string(e.dtype);
        if (e.dtype == Dtype::int8) message = e.elems;
        if (e.dtype == Dtype::fp32) {
          EXPECT_EQ(e.elems, message / weight_group_elems(message / 4));
        }
        (e.dtype == Dtype::int8 ? values : scales) += e.elems * run.times;
      }
  const Volume have = steady_volume(p), want = steady_volume(without);
  EXPECT_EQ(have.at(Op::all_gather).calls, 2 * want.at(Op::all_gather).calls);
  EXPECT_EQ(values, want.at(Op::all_gather).elems);
  EXPECT_EQ(have.at(Op::all_gather).bytes, want.at(Op::all_gather).bytes / 2 + 4 * scales);
  EXPECT_EQ(have.at(Op::reduce_scatter), want.at(Op::reduce_scatter));
  EXPECT_GT(scales, 0);
  EXPECT_GT(calls, 0);
}

// Persistent parameters are gathered after the step as they are, by another function of DeepSpeed.
TEST(QuantizedWeights, LeavePersistentParametersAsTheyAre) {
  Deck d = quantized_deck(16);
  d.zero.knobs.param_persistence_threshold = d.model.hidden;
  const Program p = program(d, 4, 0);
  int plain = 0;
  for (const Event& e : p.segments[p.steps.back().update].events)
    if (e.op == Op::all_gather) {
      EXPECT_EQ(e.dtype, Dtype::fp16);
      ++plain;
    }
  EXPECT_GT(plain, 0);
}

TEST(QuantizedWeights, ThatAreNoMultipleOfEightAreRefused) {
  try {
    Deck d = quantized_deck(2);
    program(d, 4, 0);
    FAIL();
  } catch (const DeckError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("zero_quantized_weights = true"), std::string::npos) << text;
    EXPECT_NE(text.find("multiples of 8"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace shardmark::test::quantized_weights_test
