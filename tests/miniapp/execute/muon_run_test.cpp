// SPDX-License-Identifier: Apache-2.0
// Rules of Muon at DeepSpeed's stages: with `ordered` reductions neither the stage nor how
// gradients travel changes a bit, wherever matrices are cut by partitions, but that stage 0 clips
// before updates are made; memory, collectives and work are as predicted; AdamW updates what is no
// hidden matrix; a resumed run equals one that did not stop. The same holds with the optimizer on
// the host and in files.
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include <core/plan/partition/flat_groups.hpp>
#include <core/plan/partition/muon_groups.hpp>
#include <tests/support/checkpoints.hpp>

namespace shardmark::test::muon_run_test {
namespace {

Deck deck_of(int stage, Optimizer muon = Optimizer::muon) {
  Deck d = small_deck(stage, 4 * world());
  d.run.reductions = Reductions::ordered;
  d.zero.knobs.reduce_scatter = stage != 3;
  OptimizerSpec& o = d.zero.optimizer;
  o.type = muon;
  o.lr = 0.02, o.adam_lr = 1e-3, o.momentum = 0.95, o.beta2 = 0.95, o.weight_decay = 0.05;
  set_precision(d, Dtype::fp32, Dtype::fp32);
  return d;
}

Deck offloaded(Deck deck) {
  deck.zero.offload_optimizer.enabled = true;
  return deck;
}

// So small that the states of some sub-groups, and pieces of some gradients, go to files.
Deck in_files(Deck deck, bool pipelined = false) {
  OffloadSpec& o = deck.zero.offload_optimizer;
  o.enabled = o.nvme = true;
  o.nvme_path = std::filesystem::temp_directory_path();
  o.pipeline_read = o.pipeline_write = pipelined;
  o.buffer_count = 12;
  deck.zero.aio.least_bytes = 1024;
  deck.zero.aio.alignment_bytes = 512;
  deck.zero.knobs.sub_group_size = 3000;
  return deck;
}

Outcome run(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  train_as_predicted(t, 3);
  Outcome outcome{t.losses, t.norms, t.hashes()};
  EXPECT_EQ(outcome.hashes.disagreement, "");
  return outcome;
}

// How far three steps move the first matrix.
double distance_of_a_matrix(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  const std::vector<Param>& params = t.program().model.params;
  int id = 0;
  while (!params[static_cast<std::size_t>(id)].hidden_matrix) ++id;
  const std::vector<float> from = t.tensor(id);
  for (int step = 0; step < 3; ++step) t.step();
  const std::vector<float> to = t.tensor(id);
  double squares = 0;
  for (std::size_t i = 0; i < to.size(); ++i) squares += std::pow(double(to[i]) - from[i], 2);
  return std::sqrt(squares);
}

TEST(Muon, is_bitwise_equal_however_gradients_travel) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    EXPECT_NE(want.hashes.momentum, 0U);
    EXPECT_EQ(run(deck_of(2, muon)), want);
    for (const std::int64_t bucket : {100, 2000}) {
      Deck deck = deck_of(2, muon);
      deck.zero.knobs.reduce_bucket_size = bucket;
      EXPECT_EQ(run(deck), want) << "buckets of " << bucket;
      deck.zero.knobs.use_multi_rank_bucket_allreduce = false;
      EXPECT_EQ(run(deck), want) << "reduced to their owners, buckets of " << bucket;
      deck.zero.knobs.reduce_scatter = false;
      EXPECT_EQ(run(deck), want) << "without reduce_scatter, buckets of " << bucket;
    }
    Deck deck = deck_of(2, muon);
    deck.zero.knobs.contiguous_gradients = false;
    EXPECT_EQ(run(deck), want) << "without contiguous_gradients";
    deck = deck_of(1, muon);
    deck.zero.knobs.overlap_comm = deck.zero.knobs.round_robin_gradients = true;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "dealt round robin, with overlap";
  }
}

// Whole matrices are gathered, and each rank makes the updates of some of them.
TEST(Muon, is_bitwise_equal_at_stage_3) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    EXPECT_EQ(run(deck_of(3, muon)), want);
    for (const std::int64_t size : {500, 3000}) {
      Deck deck = deck_of(3, muon);
      deck.zero.knobs.reduce_bucket_size = deck.zero.knobs.sub_group_size = size;
      EXPECT_EQ(run(deck), want) << "buckets and sub-groups of " << size;
    }
    Deck deck = deck_of(3, muon);
    deck.zero.knobs.reduce_bucket_size = 1'000'000;  // all matrices at once
    deck.zero.knobs.contiguous_gradients = deck.zero.knobs.overlap_comm = false;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "without contiguous_gradients";
    deck = deck_of(3, muon);
    deck.zero.offload_param.enabled = true;
    EXPECT_EQ(run(deck), want) << "with parameters on the host";
  }
}

// Every rank then makes all updates from gathered gradients and momenta.
TEST(Muon, is_bitwise_equal_with_the_optimizer_on_the_host) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    for (const int stage : {1, 2, 3}) {
      Deck deck = offloaded(deck_of(stage, muon));
      EXPECT_EQ(run(deck), want) << "stage " << stage;
      deck.zero.knobs.reduce_bucket_size = 100;
      deck.zero.knobs.reduce_scatter = false;
      deck.zero.knobs.overlap_comm = deck.zero.knobs.round_robin_gradients = true;
      deck.run.memory_mode = MemoryMode::pooled;
      EXPECT_EQ(run(deck), want) << "stage " << stage << ", dealt round robin, with overlap";
    }
  }
}

// The momentum is read, updated and written back before the other updates of a step.
TEST(Muon, is_bitwise_equal_with_states_in_files) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    for (const bool pipelined : {false, true})
      for (const bool in_memory : {false, true}) {
        SCOPED_TRACE(pipelined);
        Deck deck = in_files(deck_of(3, muon), pipelined);
        deck.zero.knobs.muon_momentum_in_memory = in_memory;
        EXPECT_EQ(run(deck), want) << in_memory;
        const Program p = Training(deck, MPI_COMM_WORLD).program();
        int files = 0;
        for (const Slot& s : p.slots)
          files += s.tier == Tier::nvme && s.name.starts_with("momentum");
        EXPECT_GT(files, 0);
      }
    Deck deck = in_files(deck_of(3, muon));
    deck.zero.offload_param = deck.zero.offload_optimizer;
    deck.zero.offload_param.buffer_size = 20'000;
    deck.zero.offload_param.buffer_count = 32;
    deck.zero.offload_param.max_in_cpu = 0;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "with parameters in files";
    deck.zero.offload_optimizer = {};
    EXPECT_EQ(run(deck), want) << "with parameters alone in files";
  }
}

// The first step that is not skipped gathers no momentum, since it is zero on every rank.
TEST(Muon, gathers_momentum_from_the_second_update_on) {
  Deck deck = offloaded(deck_of(2));
  set_precision(deck, Dtype::fp16, Dtype::fp16);
  Training t(deck, MPI_COMM_WORLD);
  const Program& p = t.program();
  ASSERT_EQ(p.steps.size(), 2U);
  EXPECT_EQ(p.steps[0].after_skip, 0);
  EXPECT_EQ(p.steps[0].after_update, 1);
  EXPECT_EQ(p.resumed_step, 1);
  const auto gathered = [&](int step) {
    return volume(p.segments[static_cast<std::size_t>(p.steps[step].update)])[Op::all_gather].bytes;
  };
  if (world() > 1) {
    EXPECT_GT(gathered(1), gathered(0));
  }
}

// Without clipping the order of clip and update does not matter.
TEST(Muon, is_bitwise_equal_at_stage_0_without_clipping) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const auto unclipped = [&](int stage) {
      Deck deck = deck_of(stage, muon);
      deck.zero.gradient_clipping = 0;
      return deck;
    };
    const Outcome want = run(unclipped(1)), have = run(unclipped(0));
    EXPECT_EQ(have.losses, want.losses);
    EXPECT_EQ(have.hashes, want.hashes);
    Deck pooled = unclipped(0);
    pooled.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(pooled).hashes, want.hashes);
  }
}

// Stages 1 and 2 clip the updates, whose norm is large. Stage 0 clips the gradients, and an update
// does not grow with them.
TEST(Muon, clips_gradients_at_stage_0_and_updates_at_the_others) {
  for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const auto distance = [&](int stage, double clipping) {
      Deck deck = deck_of(stage);
      set_precision(deck, type, type);
      deck.zero.gradient_clipping = clipping;
      return distance_of_a_matrix(deck);
    };
    const double want = distance(0, 0);
    EXPECT_NEAR(distance(0, 0.01), want, 0.1 * want) << to_string(type);
    for (const int stage : {1, 3})
      EXPECT_LT(distance(stage, 0.01), 0.1 * want) << to_string(type) << ", stage " << stage;
  }
}

// The momentum of matrices has the type of their gradients.
TEST(Muon, is_bitwise_equal_at_stages_1_to_3_in_16_bits) {
  for (const Dtype half : {Dtype::bf16, Dtype::fp16})
    for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
      const auto in_half = [&](int stage) {
        Deck deck = deck_of(stage, muon);
        set_precision(deck, half, half);
        return deck;
      };
      const Outcome want = run(in_half(1));
      for (const int stage : {2, 3})
        EXPECT_EQ(run(in_half(stage)), want) << to_string(half) << ", stage " << stage;
      Deck deck = in_half(2);
      deck.zero.knobs.contiguous_gradients = false;
      deck.zero.knobs.reduce_bucket_size = 100;
      EXPECT_EQ(run(deck), want) << to_string(half);
      const Program p = Training(deck, MPI_COMM_WORLD).program();
      for (const Slot& s : p.slots)
        if (s.category == Category::momentum) {
          EXPECT_EQ(s.dtype, s.name == "momentum.0" ? half : Dtype::fp32) << s.name;
        }
    }
}

Deck with_fp32_sums(Dtype half, int stage) {
  Deck deck = deck_of(stage);
  set_precision(deck, half, Dtype::fp32);
  return deck;
}

// AdamW's gradients add up in fp32, those of matrices in the type of the parameters. Gradients are
// sent whole, since DeepSpeed loses some of them otherwise.
TEST(Muon, is_bitwise_equal_where_gradients_add_up_in_fp32) {
  for (const Dtype half : {Dtype::bf16, Dtype::fp16}) {
    SCOPED_TRACE(to_string(half));
    const auto whole = [&](int stage) {
      Deck deck = with_fp32_sums(half, stage);
      deck.zero.knobs.reduce_scatter = false;
      return deck;
    };
    const Outcome want = run(whole(2));
    if (half == Dtype::fp16) {
      EXPECT_EQ(run(whole(1)), want);  // bf16 has an optimizer class of its own there
    }
    Deck deck = whole(2);
    deck.zero.knobs.contiguous_gradients = false;
    deck.zero.knobs.reduce_bucket_size = 100;
    EXPECT_EQ(run(deck), want) << "without contiguous_gradients";
    deck = whole(2);
    deck.zero.knobs.overlap_comm = deck.zero.knobs.round_robin_gradients = true;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "dealt round robin, with overlap";
    EXPECT_EQ(run(offloaded(whole(1))), run(offloaded(whole(2)))) << "on the host";
  }
}

Deck with_bf16_optimizer() {
  return with_fp32_sums(Dtype::bf16, 1);
}

// BF16_Optimizer keeps partitions of the momentum, and exchanges what ranks share of matrices.
TEST(Muon, exchanges_the_momentum_of_shared_matrices) {
  const Outcome want = run(with_bf16_optimizer());
  Deck pooled = with_bf16_optimizer();
  pooled.run.memory_mode = MemoryMode::pooled;
  EXPECT_EQ(run(pooled), want);
  const Deck deck = with_bf16_optimizer();
  const Program p = Training(deck, MPI_COMM_WORLD).program();
  std::int64_t exchanges = 0, shared = 0;
  for (const Segment& s : p.segments)
    for (const Event& e : s.events) exchanges += e.op == Op::all_to_all;
  const FlatGroups flat(p.model, deck.zero.knobs, 2, p.world);
  for (std::size_t id = 0; id < p.model.params.size(); ++id)
    shared += p.model.params[id].hidden_matrix && flat.owners(static_cast<int>(id)).size() > 1;
  EXPECT_EQ(exchanges, shared > 0 ? 1 : 0);
  std::int64_t momentum = 0;
  for (const Slot& s : p.slots)
    if (s.category == Category::momentum) momentum += s.elems;
  EXPECT_EQ(momentum, p.partition.per_rank);
}

// Wrong parts would show from the second step on. Stage 2 holds the whole momentum, though in bf16.
TEST(Muon, trains_alike_with_whole_and_with_exchanged_momentum) {
  const auto losses = [](Deck deck) {
    deck.zero.knobs.reduce_scatter = false;
    deck.zero.gradient_clipping = 0;
    Training t(deck, MPI_COMM_WORLD);
    t.init();
    for (int step = 0; step < 5; ++step) t.step();
    return t.losses;
  };
  const auto have = losses(with_bf16_optimizer());
  const auto want = losses(with_fp32_sums(Dtype::bf16, 2));
  for (std::size_t s = 0; s < want.size(); ++s)
    EXPECT_NEAR(have[s], want[s], 1e-3 * want[s]) << "step " << s;
}

// Without contiguous_gradients DeepSpeed's stage 1 makes updates of the fp32 sums themselves.
TEST(Muon, has_momentum_in_the_type_of_the_gradients_that_are_kept) {
  for (const bool contiguous : {true, false}) {
    Deck deck = with_fp32_sums(Dtype::fp16, 1);
    deck.zero.knobs.contiguous_gradients = contiguous;
    const Program p = Training(deck, MPI_COMM_WORLD).program();
    for (const Slot& s : p.slots)
      if (s.name == "momentum.0") {
        EXPECT_EQ(s.dtype, contiguous ? Dtype::fp16 : Dtype::fp32);
      }
  }
}

// How many parameters three steps leave where they are.
int unmoved(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  const auto params = static_cast<int>(t.program().model.params.size());
  std::vector<std::vector<float>> from;
  for (int id = 0; id < params; ++id) from.push_back(t.tensor(id));
  for (int step = 0; step < 3; ++step) t.step();
  int same = 0;
  for (int id = 0; id < params; ++id) same += t.tensor(id) == from[static_cast<std::size_t>(id)];
  return same;
}

// DeepSpeed forgets the gradient of a parameter that lies before a matrix of the same rank in a
// bucket, where AdamW's gradients add up in a partition of fp32. On more ranks the matrices of this
// model are cut, so that no parameter loses its whole gradient.
TEST(Muon, loses_gradients_before_matrices_as_deepspeed_does) {
  for (const bool on_host : {false, true}) {
    Deck deck = with_fp32_sums(Dtype::fp16, 2);
    deck.zero.optimizer.weight_decay = 0;
    if (on_host) deck = offloaded(deck);
    if (world() < 3) {
      EXPECT_GT(unmoved(deck), 0);
    }
    deck.zero.knobs.reduce_scatter = false;
    EXPECT_EQ(unmoved(deck), 0);
  }
}

// Updates do not grow with the loss, so the step does not depend on its scale.
TEST(Muon, does_not_depend_on_the_loss_scale) {
  const double want = distance_of_a_matrix(deck_of(2));
  EXPECT_GT(want, 0);
  for (const int stage : {2, 3})
    for (const double scale : {1.0, 256.0, 4096.0}) {
      SCOPED_TRACE(scale);
      Deck deck = deck_of(stage);
      set_precision(deck, Dtype::fp16, Dtype::fp16);
      deck.zero.precision.loss_scale = {.dynamic = false, .initial = scale};
      EXPECT_NEAR(distance_of_a_matrix(deck), want, 0.1 * want) << "stage " << stage;
      if (stage == 3) set_precision(deck, Dtype::fp16, Dtype::fp32);
      deck.zero.precision.loss_scale = {.dynamic = false, .initial = scale};
      EXPECT_NEAR(distance_of_a_matrix(offloaded(deck)), want, 0.1 * want)
          << "stage " << stage << ", offloaded";
    }
}

TEST(Muon, trains_as_well_as_with_native_reductions) {
  Deck deck = deck_of(2);
  deck.zero.accumulation_steps = 2;
  const Outcome want = run(deck);
  deck.run.reductions = Reductions::native;
  const Outcome have = run(deck);
  for (std::size_t s = 0; s < want.losses.size(); ++s)
    EXPECT_NEAR(have.losses[s], want.losses[s], 1e-3) << "step " << s;
}

// Gathers of parameters are quantized, those of matrices for their updates are not.
TEST(Muon, trains_with_quantized_gathers_of_parameters) {
  for (const bool on_host : {false, true}) {
    Deck deck = on_host ? offloaded(deck_of(3)) : deck_of(3);
    deck.model.hidden = 16 * world();  // each rank has a multiple of 8 of every parameter
    deck.model.heads = 2;
    deck.zero.knobs.quantized_weights = true;
    expect_losses_near_those_without(deck, deck.zero.knobs.quantized_weights);
  }
}

// The file has every element of the momentum once; a rank reads the whole momentum of its matrices.
TEST(Muon, goes_on_from_a_checkpoint) {
  constexpr std::int64_t steps = 4, stop_after = 2;
  struct Case {
    Dtype type;
    bool async;
    int stage, resumed_at;
    bool on_host = false, resumed_on_host = false;
    Dtype sums = type;
    bool files = false;  // where it is on the host
  };
  for (const auto& [type, async, stage, resumed_at, on_host, resumed_on_host, sums, files] :
       {Case{Dtype::fp32, false, 1, 2},
        Case{Dtype::fp32, true, 1, 2},
        Case{Dtype::bf16, false, 1, 2},
        Case{Dtype::fp16, true, 1, 2},
        Case{Dtype::fp32, false, 0, 0},
        Case{Dtype::bf16, true, 0, 0},
        Case{Dtype::fp32, false, 1, 2, true, true},
        Case{Dtype::bf16, true, 2, 1, true, true},
        Case{Dtype::fp16, false, 2, 2, true, true},
        Case{Dtype::fp32, true, 2, 1, true, false},
        Case{Dtype::fp32, false, 1, 1, false, true},
        Case{Dtype::fp32, false, 3, 3},
        Case{Dtype::bf16, true, 3, 3},
        Case{Dtype::fp32, true, 3, 1, true, false},
        Case{Dtype::bf16, false, 3, 3, true, true},
        Case{Dtype::fp32, false, 2, 3, false, true},
        Case{Dtype::fp16, false, 1, 1, false, false, Dtype::fp32},
        Case{Dtype::bf16, true, 2, 2, false, false, Dtype::fp32},
        Case{Dtype::bf16, false, 1, 1, true, true, Dtype::fp32},
        Case{Dtype::bf16, false, 1, 1, false, false, Dtype::fp32},
        Case{Dtype::bf16, true, 1, 1, false, false, Dtype::fp32},
        Case{Dtype::fp32, false, 3, 3, true, true, Dtype::fp32, true},
        Case{Dtype::fp32, true, 3, 2, true, false, Dtype::fp32, true}}) {
    const auto moved = [&](const Deck& deck, bool from_device) {
      return !from_device ? deck : files ? in_files(deck) : offloaded(deck);
    };
    SCOPED_TRACE(to_string(type));
    const SharedFolder folder;
    const auto to_the_end = [&](CheckpointedRun& run, bool writes) {
      for (std::int64_t s = run.checkpoints.first_step(); s < steps; ++s) {
        run.training.step();
        if (writes && s + 1 == stop_after) run.write();
      }
      run.checkpoints.finish();
      EXPECT_EQ(run.training.counting().volume(),
                volume_of_runs(run.training.program(), run.training.planned_runs()));
      return Outcome{
          {run.training.losses.back()}, {run.training.norms.back()}, run.training.hashes()};
    };
    Deck deck = moved(deck_of(stage), on_host);
    deck.checkpoint.async = async;
    SchedulerSpec& rates = deck.zero.scheduler;  // goes on, too
    rates.type = LrSchedule::warmup_cosine;
    rates.warmup_num_steps = 2, rates.total_num_steps = 6;
    set_precision(deck, type, sums);
    const Outcome want = [&] {
      CheckpointedRun whole(with_checkpoints(deck, folder.path()), MPI_COMM_WORLD);
      return to_the_end(whole, true);
    }();
    Deck other = moved(deck_of(resumed_at), resumed_on_host);
    set_precision(other, type, sums);
    other.zero.scheduler = rates;
    CheckpointedRun again(with_checkpoints(other, folder.path(), "latest", 0), MPI_COMM_WORLD);
    EXPECT_EQ(again.checkpoints.first_step(), stop_after);
    EXPECT_EQ(to_the_end(again, false), want);
  }
}

// A rank has the whole momentum of each matrix that its partition touches, in place of a partition
// of momentum and variance.
TEST(Muon, holds_the_momentum_of_whole_matrices) {
  const Deck deck = deck_of(2);
  const Program p = Training(deck, MPI_COMM_WORLD).program();
  const FlatGroups flat(p.model, deck.zero.knobs, 4, p.world);
  std::int64_t whole = 0, variance = 0;
  for (const FlatGroup& group : flat.groups()) {
    if (!has_matrices(p.model, group.params)) variance += group.partition;
    for (const int id : group.params)
      if (p.model.params[id].hidden_matrix && flat.owned(id, p.rank).elems > 0)
        whole += p.model.params[id].elems;
  }
  EXPECT_EQ(flat.groups().size(), 2U);
  const auto elems_of = [&](Category category) {
    std::int64_t sum = 0;
    for (const Slot& s : p.slots) sum += s.category == category ? s.elems : 0;
    return sum;
  };
  EXPECT_EQ(elems_of(Category::momentum), whole + variance);
  EXPECT_EQ(elems_of(Category::variance), variance);
}

// At stage 3 each rank has its shards of momentum, and of variance for the rest.
TEST(Muon, shards_the_momentum_at_stage_3) {
  const Program p = Training(deck_of(3), MPI_COMM_WORLD).program();
  std::int64_t matrices = 0, rest = 0, momentum = 0, variance = 0;
  for (const Param& param : p.model.params)
    (param.hidden_matrix ? matrices : rest) += (param.elems + p.world - 1) / p.world;
  for (const Slot& s : p.slots) {
    if (s.category == Category::momentum) momentum += s.elems;
    if (s.category == Category::variance) variance += s.elems;
  }
  EXPECT_EQ(momentum, matrices + rest);
  EXPECT_EQ(variance, rest);
}

// Embeddings, the head, norms and biases are not.
TEST(Muon, orthogonalizes_the_matrices_of_blocks) {
  const Program p = Training(deck_of(1), MPI_COMM_WORLD).program();
  for (const Param& param : p.model.params)
    EXPECT_EQ(param.hidden_matrix,
              param.shape.size() == 2 && param.name.find("block") != std::string::npos)
        << param.name;
}

}  // namespace
}  // namespace shardmark::test::muon_run_test
