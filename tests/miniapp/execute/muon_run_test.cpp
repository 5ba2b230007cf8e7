// SPDX-License-Identifier: Apache-2.0
// Rules of Muon at DeepSpeed's stages: memory, collectives and work are as predicted, momentum is
// where it must be, AdamW updates what is no hidden matrix, and a resumed run equals one that did
// not stop.
#include <gtest/gtest.h>

#include <core/plan/partition/flat_groups.hpp>
#include <core/plan/partition/muon_groups.hpp>
#include <tests/miniapp/execute/muon_run.hpp>

namespace shardmark::test::muon_run_test {
namespace {

using namespace muon_run;

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
