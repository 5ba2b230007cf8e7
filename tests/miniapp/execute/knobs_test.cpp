// SPDX-License-Identifier: Apache-2.0
// Rules, over a pairwise cover of all knobs x stages x accumulation x types, on this many ranks:
// predictions equal measurements to the byte and to the call in every step; with `ordered`
// reductions, stages and schedules give the same bits wherever the design says so.
#include <map>

#include <gtest/gtest.h>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/cover.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::knobs_test {
namespace {

enum Factor {
  stage,
  accumulation,
  dtype,
  reductions,
  compute,
  grad_accum,
  comm_dtype,
  contiguous,
  scatter,
  multi_rank,
  overlap,
  round_robin,
  alignment,
  bucket,
  grad_norm,
  prefetch,
  max_live,
  max_reuse,
  persistence,
  model_persistence,
  sub_group,
  fetch_by_sum,
  sequential,
  memory_efficient,
  predivide,
  tied,
  groups,
  clipping,
  recompute,
  family,
  pooled,
  secondary,
  offload
};

const std::vector<int> levels{4, 2, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4, 2, 3, 2,
                              3, 3, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 3, 5};

// The level of offload, as far as this stage has it: none, optimizer, a part of it, parameters,
// both.
bool offloads_optimizer(const std::vector<int>& row) {
  return row[stage] > 0 && row[offload] != 0 && row[offload] != 3;
}

ModelSpec list_model(bool tied, bool groups) {
  ModelSpec m;
  m.family = Family::list;
  m.modules = {{"", {}},
               {"wte", {310}},
               {"h.0", {}},
               {"h.0.ln", {10, 10}},
               {"h.0.attn", {}},
               {"h.0.attn.a", {300, 30}},
               {"h.0.b", {100, 7}},
               {"h.1", {}},
               {"h.1.a", {1}},
               {"h.1.b", {257, 3}},
               {"ln", {10, 10}},
               {"head", {310}}};
  if (tied) m.tied = {{"head", "wte"}};
  const int params = tied ? 12 : 13;
  if (groups) {
    m.param_groups.resize(2);
    for (int p = 0; p < params; ++p) m.param_groups[p % 3 == 1 ? 1 : 0].push_back(p);
  }
  return m;
}

Deck deck_of(const std::vector<int>& row) {
  Deck d =
      small_deck(row[stage], 2 * world() * (row[accumulation] ? 3 : 1), row[accumulation] ? 3 : 1);
  d.run.reductions = row[reductions] ? Reductions::ordered : Reductions::native;
  d.run.memory_mode = row[pooled] ? MemoryMode::pooled : MemoryMode::strict;
  PrecisionSpec& p = d.zero.precision;
  p.model = row[dtype] == 0 ? Dtype::fp32 : row[dtype] == 1 ? Dtype::bf16 : Dtype::fp16;
  p.grad_accum = row[grad_accum] ? Dtype::fp32 : p.model;
  p.comm = row[comm_dtype] ? Dtype::fp32 : p.model;
  const bool bf16_optimizer =
      uses_bf16_optimizer(row[stage], p.model, p.grad_accum, offloads_optimizer(row));
  d.zero.offload_optimizer.enabled = offloads_optimizer(row);
  if (row[offload] == 2 && row[stage] == 3) d.zero.offload_optimizer.ratio = 0.5;
  d.zero.offload_optimizer.pin_memory = row[sequential];  // a factor that has no other effect here
  d.zero.offload_param.enabled = row[stage] == 3 && row[offload] > 2;
  p.check_overflow = p.model == Dtype::fp16 || (p.model == Dtype::bf16 && !bf16_optimizer &&
                                                (row[stage] == 1 || row[stage] == 2));
  if (p.model == Dtype::fp16) p.loss_scale.initial = 8;
  const bool trains = row[compute] && !row[groups];
  d.run.compute = trains ? Compute::train : Compute::none;
  d.run.activation_checkpointing = row[recompute];
  d.model.tied_head = row[tied];
  if (trains && row[family])
    make_llama(d.model);
  else if (!trains)
    d.model = list_model(row[tied], row[groups]);
  ZeroKnobs& k = d.zero.knobs;
  k.contiguous_gradients = !row[contiguous];
  k.reduce_scatter = !row[scatter];
  k.use_multi_rank_bucket_allreduce = !row[multi_rank];
  k.overlap_comm = row[overlap];
  k.immediate_grad_update = row[overlap];  // BF16_Optimizer's alone, which overlaps nothing
  k.round_robin_gradients = row[round_robin];
  k.parameter_alignment = row[alignment];
  const std::int64_t unit = trains ? 20 : 1;  // a transformer's tensors are larger
  k.reduce_bucket_size = std::array<std::int64_t, 4>{40, 200, 450, 100'000}[row[bucket]] * unit;
  k.prefetch_bucket_size = std::array<std::int64_t, 3>{0, 150, 50'000}[row[prefetch]] * unit;
  k.max_live_parameters = row[max_live] ? 400 * unit : 1'000'000'000;
  k.max_reuse_distance = std::array<std::int64_t, 3>{0, 300, 50'000}[row[max_reuse]] * unit;
  k.param_persistence_threshold =
      std::array<std::int64_t, 3>{0, 20, 100'000}[row[persistence]] * unit;
  k.model_persistence_threshold = row[model_persistence] ? 50 * unit : INT64_MAX;
  k.sub_group_size = row[sub_group] ? 90 * unit : 1'000'000'000;
  k.use_all_reduce_for_fetch_params = row[fetch_by_sum];
  k.allgather_sequential = row[sequential];
  k.memory_efficient_linear = !row[memory_efficient];
  // One block of all ranks if their number is odd.
  if (row[secondary] > 0 && !d.zero.offload_param.enabled)
    k.hpz_partition_size = row[secondary] == 1 && world() % 2 == 0 ? 2 : 8;
  const bool scales = row[stage] < 2 || !k.reduce_scatter;
  if (row[predivide] == 1 && scales) k.gradient_predivide_factor = 2;
  if (row[predivide] == 2 && scales) k.prescale_gradients = true;
  d.zero.gradient_clipping = row[clipping] ? 0.5 : 0;
  if (row[grad_norm] && (row[stage] == 1 || row[stage] == 2)) {
    k.compute_grad_norm = false;
    d.zero.gradient_clipping = 0;
  }
  return d;
}

std::string name_of(const std::vector<int>& row) {
  std::string text = "row";
  for (int v : row) text += " " + std::to_string(v);
  return text;
}

struct Outcome {
  std::vector<double> losses;
  StateHashes hashes;
};

Outcome run(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  for (int s = 0; s < 4; ++s) {
    t.step();
    EXPECT_FALSE(t.skipped.back());
  }
  expect_memory_as_predicted(t);
  expect_groups_as_predicted(t);
  EXPECT_EQ(t.executor().carried(), copies_of_runs(t.program(), t.planned_runs()));
  const Outcome o{t.losses, t.hashes()};
  EXPECT_EQ(o.hashes.disagreement, "");
  return o;
}

// A key of everything that the bits depend on, which does not include how values are communicated.
// Stages 0 and 1 sum over micro-batches before ranks, stages 2 and 3 after. 16-bit gradients of a
// transformer are rounded where they are accumulated, and at stage 1 before they are sent.
using Same = std::tuple<int, int, int, int, int, int, int, int, int>;
int accumulated_apart(const std::vector<int>& row, const Deck& d) {
  const PrecisionSpec& p = d.zero.precision;
  if (d.run.compute != Compute::train || p.grad_accum == p.model) return 0;
  // DeepSpeed's other optimizer class rounds sums before it sends them.
  if (row[stage] == 1) return 2 + row[comm_dtype] + 2 * offloads_optimizer(row);
  return row[accumulation];
}
Same same_bits(const std::vector<int>& row, const Deck& d) {
  return {row[accumulation] ? (row[stage] < 2 ? 1 : 2) : 0,
          row[dtype],
          d.run.compute == Compute::train ? 1 : 0,
          d.model.tied.empty() && !d.model.tied_head ? 0 : 1,
          d.run.compute == Compute::train && d.zero.gradient_clipping > 0 ? 1 : 0,
          static_cast<int>(d.model.modules.size()),
          d.run.compute == Compute::train ? 0 : static_cast<int>(d.zero.gradient_clipping),
          accumulated_apart(row, d),
          static_cast<int>(d.model.family)};
}

TEST(Knobs, PredictedIsMeasuredAndOrderedIsBitwise) {
  const auto rows = pairwise_cover(levels, 220);
  int compared = 0;
  std::map<Same, Outcome> first;
  for (const std::vector<int>& row : rows) {
    SCOPED_TRACE(name_of(row));
    const Deck deck = deck_of(row);
    const Outcome o = run(deck);
    if (deck.run.reductions != Reductions::ordered) continue;
    const auto [it, fresh] = first.try_emplace(same_bits(row, deck), o);
    if (fresh) continue;
    ++compared;
    EXPECT_EQ(o.losses, it->second.losses);
    EXPECT_EQ(o.hashes, it->second.hashes);
  }
  printf("%zu combinations on %d ranks, %d compared bit by bit\n", rows.size(), world(), compared);
  EXPECT_GE(rows.size(), 150U);
  EXPECT_GT(compared, 40);
}

// A bucket that is reduced in place must be saved before the next gradients are copied into it.
TEST(Knobs, ABucketThatFillsAgainLosesNothing) {
  Deck deck = small_deck(0, 2 * world());
  deck.run.compute = Compute::none;
  deck.run.reductions = Reductions::ordered;
  deck.model = {};
  deck.model.family = Family::list;
  for (int m = 0; m < 6; ++m) deck.model.modules.push_back({"m." + std::to_string(m), {60}});
  deck.zero.knobs.reduce_bucket_size = 60;  // each tensor fills it, and divides by 1 to 4 ranks
  const Outcome whole = run(deck);
  for (int stage : {1, 2, 3})
    for (bool scatter : {false, true})
      for (bool overlap : {false, true}) {
        SCOPED_TRACE(name_of({stage, scatter, overlap}));
        deck.zero.stage = stage;
        deck.zero.knobs.reduce_scatter = scatter;
        deck.zero.knobs.overlap_comm = overlap;
        EXPECT_EQ(run(deck).hashes, whole.hashes);
      }
}

}  // namespace
}  // namespace shardmark::test::knobs_test
