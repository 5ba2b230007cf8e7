// SPDX-License-Identifier: Apache-2.0
// Rule: plans of the schedule `deepspeed` are legal under every knob, stage, type, world and
// accumulation.
#include <map>

#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::every_knob_test {
namespace {

struct Variant {
  const char* name;
  void (*apply)(Deck&);
};

// Stage 3 needs whole gradients.
void use_muon(Deck& d, Optimizer muon) {
  d.zero.optimizer.type = muon;
  if (d.zero.stage == 3) d.zero.knobs.reduce_scatter = false;
}

const Variant variants[] = {
    {"as it is", [](Deck&) {}},
    {"default sizes", [](Deck& d) { d.zero.knobs = {}; }},
    {"overlap_comm flipped",
     [](Deck& d) { d.zero.knobs.overlap_comm = !d.zero.knobs.overlap_comm; }},
    {"no reduce_scatter", [](Deck& d) { d.zero.knobs.reduce_scatter = false; }},
    {"rooted", [](Deck& d) { d.zero.knobs.use_multi_rank_bucket_allreduce = false; }},
    {"not contiguous", [](Deck& d) { d.zero.knobs.contiguous_gradients = false; }},
    {"round robin", [](Deck& d) { d.zero.knobs.round_robin_gradients = true; }},
    {"aligned", [](Deck& d) { d.zero.knobs.parameter_alignment = true; }},
    {"tiny bucket", [](Deck& d) { d.zero.knobs.reduce_bucket_size = 100; }},
    {"no prefetch", [](Deck& d) { d.zero.knobs.prefetch_bucket_size = 0; }},
    {"no reuse", [](Deck& d) { d.zero.knobs.max_reuse_distance = 0; }},
    {"all persist", [](Deck& d) { d.zero.knobs.param_persistence_threshold = 1 << 20; }},
    {"none persists", [](Deck& d) { d.zero.knobs.param_persistence_threshold = 0; }},
    {"sub-groups", [](Deck& d) { d.zero.knobs.sub_group_size = 1000; }},
    {"sequential", [](Deck& d) { d.zero.knobs.allgather_sequential = true; }},
    {"fetched by sums", [](Deck& d) { d.zero.knobs.use_all_reduce_for_fetch_params = true; }},
    {"no norm",
     [](Deck& d) {
       d.zero.knobs.compute_grad_norm = false;
       d.zero.gradient_clipping = 0;
     }},
    {"predivided",
     [](Deck& d) {
       d.zero.knobs.reduce_scatter = false;
       d.zero.knobs.gradient_predivide_factor = 2;
     }},
    {"summed", [](Deck& d) { d.zero.knobs.sums_gradients = true; }},
    {"fp32 on the wire", [](Deck& d) { d.zero.precision.comm = Dtype::fp32; }},
    {"autocast",
     [](Deck& d) {
       PrecisionSpec& p = d.zero.precision;
       if (p.model == Dtype::fp32) p.autocast = {Dtype::bf16, {"torch.nn.Linear"}};
     }},
    {"fp32 accumulation", [](Deck& d) { d.zero.precision.grad_accum = Dtype::fp32; }},
    {"optimizer offloaded", [](Deck& d) { d.zero.offload_optimizer.enabled = true; }},
    {"optimizer offloaded, overlap_comm flipped",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.knobs.overlap_comm = !d.zero.knobs.overlap_comm;
     }},
    {"half of the optimizer offloaded",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.offload_optimizer.ratio = d.zero.stage == 3 ? 0.5 : 1;
       d.zero.knobs.sub_group_size = 1000;
     }},
    {"parameters offloaded", [](Deck& d) { d.zero.offload_param.enabled = d.zero.stage == 3; }},
    {"all offloaded",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.offload_param.enabled = d.zero.stage == 3;
     }},
    {"optimizer in files", [](Deck& d) { put_in_files(d, true, false); }},
    {"optimizer in files, ahead and behind, several sub-groups",
     [](Deck& d) {
       put_in_files(d, true, false);
       d.zero.offload_optimizer.pipeline_read = d.zero.offload_optimizer.pipeline_write = true;
       d.zero.knobs.sub_group_size = 700;
     }},
    {"parameters in files", [](Deck& d) { put_in_files(d, false, true); }},
    {"all in files, but what fits into the host",
     [](Deck& d) {
       put_in_files(d, true, true);
       d.zero.offload_param.max_in_cpu = 900;
       d.zero.knobs.sub_group_size = 700;
     }},
    {"Lion", [](Deck& d) { d.zero.optimizer.type = Optimizer::lion; }},
    {"Adagrad", [](Deck& d) { d.zero.optimizer.type = Optimizer::adagrad; }},
    {"Muon", [](Deck& d) { use_muon(d, Optimizer::muon); }},
    {"Muon, dealt round robin",
     [](Deck& d) {
       use_muon(d, Optimizer::standard_muon);
       d.zero.knobs.round_robin_gradients = d.zero.knobs.overlap_comm = true;
     }},
    {"Muon, rooted",
     [](Deck& d) {
       use_muon(d, Optimizer::muon);
       d.zero.knobs.use_multi_rank_bucket_allreduce = false;
       d.zero.knobs.reduce_bucket_size = 700;
     }},
    {"Muon, rooted, fp32 accumulation, offloaded with overlap",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       if (d.zero.stage != 0) d.zero.precision.grad_accum = Dtype::fp32;
       use_muon(d, Optimizer::muon);
       d.zero.knobs.use_multi_rank_bucket_allreduce = false;
       d.zero.knobs.overlap_comm = true;
     }},
    {"Muon, sub-groups and fp32 on the wire",
     [](Deck& d) {
       use_muon(d, Optimizer::muon);
       d.zero.knobs.sub_group_size = 700;
       d.zero.precision.comm = Dtype::fp32;
     }},
    {"Muon, fp32 accumulation, all offloaded",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.offload_param.enabled = d.zero.stage == 3;
       if (d.zero.stage != 0) d.zero.precision.grad_accum = Dtype::fp32;
       use_muon(d, Optimizer::muon);
     }},
    {"Muon, fp32 accumulation",
     [](Deck& d) {
       if (d.zero.stage != 0) d.zero.precision.grad_accum = Dtype::fp32;
       d.zero.knobs.reduce_bucket_size = 700;
       use_muon(d, Optimizer::muon);
     }},
    {"Muon, fp32 accumulation, not contiguous, dealt round robin",
     [](Deck& d) {
       if (d.zero.stage != 0) d.zero.precision.grad_accum = Dtype::fp32;
       d.zero.knobs.contiguous_gradients = false;
       d.zero.knobs.round_robin_gradients = d.zero.knobs.overlap_comm = true;
       use_muon(d, Optimizer::muon);
     }},
    {"Muon, fp32 accumulation, not managed",
     [](Deck& d) {
       if (d.zero.stage != 0) d.zero.precision.grad_accum = Dtype::fp32;
       d.zero.knobs.managed_accumulation = d.zero.stage == 3;
       use_muon(d, Optimizer::muon);
     }},
    {"Muon offloaded",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       use_muon(d, Optimizer::muon);
     }},
    {"Muon offloaded, dealt round robin",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.knobs.round_robin_gradients = d.zero.knobs.overlap_comm = true;
       use_muon(d, Optimizer::standard_muon);
     }},
    {"Muon, autocast",
     [](Deck& d) {
       use_muon(d, Optimizer::muon);
       PrecisionSpec& p = d.zero.precision;
       if (p.model == Dtype::fp32) p.autocast = {Dtype::bf16, {"torch.nn.Linear"}};
     }},
    {"Muon, bf16 master",
     [](Deck& d) {
       use_muon(d, Optimizer::muon);
       PrecisionSpec& p = d.zero.precision;
       if (d.zero.stage != 0 && p.model == Dtype::bf16) p.master = Dtype::bf16;
     }},
    {"Muon in files, ahead and behind",
     [](Deck& d) {
       put_in_files(d, true, false);
       use_muon(d, Optimizer::muon);
       d.zero.offload_optimizer.pipeline_read = d.zero.offload_optimizer.pipeline_write = true;
       d.zero.knobs.sub_group_size = 700;
     }},
    {"Muon in files, but its momentum",
     [](Deck& d) {
       put_in_files(d, true, true);
       use_muon(d, Optimizer::muon);
       d.zero.knobs.muon_momentum_in_memory = true;
       d.zero.knobs.sub_group_size = 700;
     }},
    {"SGD in files, ahead and behind",
     [](Deck& d) {
       put_in_files(d, true, false);
       d.zero.optimizer.type = Optimizer::sgd;
       d.zero.offload_optimizer.pipeline_read = d.zero.offload_optimizer.pipeline_write = true;
       d.zero.knobs.sub_group_size = 700;
     }},
    {"Lion offloaded",
     [](Deck& d) {
       d.zero.offload_optimizer.enabled = true;
       d.zero.optimizer.type = Optimizer::host_lion;
     }},
    {"recomputed", [](Deck& d) { d.run.activation_checkpointing = true; }},
    {"two groups",
     [](Deck& d) {
       d.model.family = Family::list;
       d.model.modules = {{"a", {100, 7}}, {"b", {}}, {"b.c", {33}}, {"d", {64, 8}}, {"e", {9}}};
       d.model.param_groups = {{0, 2, 5}, {1, 3, 4}};
       d.zero.knobs.reduce_bucket_size = 60;
     }},
};

// More micro-batches and another way to add up change the same events for any number of ranks.
bool is_worth_a_plan(int world, std::int64_t accumulation, Reductions reductions) {
  if (world == 3) return true;
  const bool few = world == 2 ? accumulation < 4 : accumulation == (world == 1 ? 2 : 1);
  return few && reductions == Reductions::native;
}

TEST(DeepSpeed, IsLegalUnderEveryKnob) {
  int cases = 0;
  for (const Variant& v : variants)
    for (int stage : {0, 1, 2, 3})
      for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
        for (int world : {1, 2, 3, 5})
          for (std::int64_t accumulation : {1, 2, 4})
            for (Reductions reductions : {Reductions::native, Reductions::ordered}) {
              if (!is_worth_a_plan(world, accumulation, reductions)) continue;
              Deck deck = deepspeed_deck(stage);
              PrecisionSpec& precision = deck.zero.precision;
              precision.model = precision.grad_accum = precision.comm = dtype;
              precision.check_overflow =
                  dtype == Dtype::fp16 || (dtype == Dtype::bf16 && stage % 3 != 0);
              deck.run.reductions = reductions;
              deck.run.compute = Compute::none;
              v.apply(deck);
              std::map<int, Program> programs;
              auto program_of = [&](int rank) {
                if (!programs.contains(rank))
                  programs.emplace(rank, program(deck, world, rank, accumulation));
                return programs.at(rank);
              };
              SCOPED_TRACE(std::string(v.name) + ", stage " + std::to_string(stage) + ", " +
                           std::string(to_string(dtype)) + ", " + std::to_string(world) +
                           " ranks, accumulation " + std::to_string(accumulation));
              for (int rank : {0, world - 1})
                ASSERT_NO_THROW(require_legal(check(program_of(rank))));
              ASSERT_NO_THROW(require_legal(check_ranks(ranks_to_check(world, 0), program_of)));
              ++cases;
            }
  EXPECT_GT(cases, 5000);
}

}  // namespace
}  // namespace shardmark::test::every_knob_test
