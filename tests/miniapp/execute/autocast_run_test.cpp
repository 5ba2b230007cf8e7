// SPDX-License-Identifier: Apache-2.0
// Rule of runs with torch_autocast: memory and calls are as predicted under every knob, and
// integers that 16 bits hold come out as without autocast, bit by bit.
#include <gtest/gtest.h>

#include <core/plan/interpret/check.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::autocast_run_test {
namespace {

// Sizes that no number of ranks divides, and types that follow each other in every way.
Deck list_deck(int stage, std::int64_t accumulation) {
  Deck d = small_deck(stage, world() * accumulation, accumulation);
  d.run.compute = Compute::none;
  d.run.reductions = Reductions::ordered;
  d.model = {};
  d.model.family = Family::list;
  const std::string linear = "torch.nn.Linear", norm = "torch.nn.LayerNorm";
  d.model.modules = {{"emb", {211}, {}, "torch.nn.Embedding"},
                     {"h", {}},
                     {"h.a", {101, 7}, {}, linear},
                     {"h.b", {1}, {}, norm},
                     {"h.c", {63}, {}, "model.Own"},
                     {"h.d", {257, 3}, {}, linear},
                     {"ln", {11, 11}, {}, norm},
                     {"head", {211}, {}, linear}};
  d.model.tied = {{"head", "emb"}};
  ZeroKnobs& k = d.zero.knobs;
  k.reduce_bucket_size = 150;
  k.prefetch_bucket_size = 120;
  k.max_live_parameters = 400;
  k.max_reuse_distance = 200;
  k.param_persistence_threshold = 7;
  return d;
}

StateHashes run(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  require_legal(check(t.program()));
  train_as_predicted(t, 4);
  EXPECT_EQ(t.hashes().disagreement, "");
  return t.hashes();
}

struct Variant {
  const char* name;
  void (*apply)(Deck&, ZeroKnobs&);
};
const Variant variants[] = {
    {"as it is", [](Deck&, ZeroKnobs&) {}},
    {"overlap_comm flipped", [](Deck&, ZeroKnobs& k) { k.overlap_comm = !k.overlap_comm; }},
    {"all-reduced", [](Deck&, ZeroKnobs& k) { k.reduce_scatter = false; }},
    {"rooted", [](Deck&, ZeroKnobs& k) { k.use_multi_rank_bucket_allreduce = false; }},
    {"not contiguous", [](Deck&, ZeroKnobs& k) { k.contiguous_gradients = false; }},
    {"large buckets", [](Deck&, ZeroKnobs& k) { k.reduce_bucket_size = 5000; }},
    {"sequential", [](Deck&, ZeroKnobs& k) { k.allgather_sequential = true; }},
    {"fetched by sums", [](Deck&, ZeroKnobs& k) { k.use_all_reduce_for_fetch_params = true; }},
    {"on demand", [](Deck&, ZeroKnobs& k) { k.prefetch_bucket_size = k.max_reuse_distance = 0; }},
    {"secondary shards",
     [](Deck&, ZeroKnobs& k) { k.hpz_partition_size = world() % 2 == 0 ? 2 : world(); }},
    {"optimizer offloaded", [](Deck& d, ZeroKnobs&) { d.zero.offload_optimizer.enabled = true; }},
    {"all offloaded",
     [](Deck& d, ZeroKnobs&) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.offload_param.enabled = d.zero.stage == 3;
     }},
    {"none persists", [](Deck&, ZeroKnobs& k) { k.param_persistence_threshold = 0; }},
};

TEST(AutocastRuns, SendSmallIntegersInSixteenBitsWithoutAChange) {
  for (std::int64_t accumulation : {1, 2}) {
    const StateHashes want = run(list_deck(0, accumulation));
    for (int stage : {1, 2, 3})
      for (const Variant& v : variants) {
        SCOPED_TRACE(::testing::Message()
                     << v.name << ", stage " << stage << ", accumulation " << accumulation);
        Deck deck = list_deck(stage, accumulation);
        deck.run.memory_mode = accumulation == 1 ? MemoryMode::strict : MemoryMode::pooled;
        v.apply(deck, deck.zero.knobs);
        deck.zero.precision.autocast = {Dtype::bf16, {"torch.nn.modules.linear.Linear"}};
        EXPECT_EQ(run(deck), want);
      }
  }
}

// The tied head makes the embedding's weight a safe one, so only the norms and model.Own need fp32.
TEST(AutocastRuns, HalveTheBytesOfSafeModules) {
  if (world() == 1) return;
  const auto bytes = [](bool autocast) {
    Deck deck = list_deck(3, 1);
    deck.zero.knobs.param_persistence_threshold = 0;
    if (autocast) deck.zero.precision.autocast = {Dtype::bf16, {"torch.nn.Linear"}};
    Training t(deck, MPI_COMM_WORLD);
    t.init();
    t.step();
    const auto before = t.counting().volume();
    t.step();
    return t.counting().volume()[Op::reduce_scatter].bytes - before.at(Op::reduce_scatter).bytes;
  };
  const auto padded = [](std::int64_t elems) { return (elems + world() - 1) / world() * world(); };
  std::int64_t low = 0, rest = 0;
  for (std::int64_t elems : {211, 101, 7, 257, 3}) low += padded(elems);
  for (std::int64_t elems : {1, 63, 11, 11}) rest += padded(elems);
  EXPECT_EQ(bytes(false), 4 * (low + rest));
  EXPECT_EQ(bytes(true), 2 * low + 4 * rest);
}

}  // namespace
}  // namespace shardmark::test::autocast_run_test
