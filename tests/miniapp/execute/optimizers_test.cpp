// SPDX-License-Identifier: Apache-2.0
// Rules for every optimizer: with `ordered` reductions neither stage, schedule nor offload changes
// a bit; memory and traffic are as predicted, by the states that the optimizer has; a resumed run
// equals one that did not stop, and states of another optimizer are refused.
#include <filesystem>

#include <gtest/gtest.h>

#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/checkpoints.hpp>

namespace shardmark::test::optimizers_test {
namespace {

constexpr Optimizer on_device[] = {Optimizer::lion, Optimizer::sgd, Optimizer::momentum_sgd,
                                   Optimizer::adagrad};

OptimizerSpec spec_of(Optimizer type) {
  OptimizerSpec o;
  o.type = type;
  o.unfused = true;
  o.weight_decay = 0.05;
  switch (traits(type).kernel) {
    case Kernel::sgd:
      o.lr = 0.1;
      o.momentum = type == Optimizer::momentum_sgd ? 0.9 : 0;
      o.dampening = type == Optimizer::momentum_sgd ? 0.1 : 0;
      break;
    case Kernel::adagrad:
      o.lr = 0.01, o.lr_decay = 0.1, o.eps = 1e-10, o.first_accumulator = 1e-3;
      break;
    default: o.lr = 1e-3, o.beta2 = 0.95;
  }
  return o;
}

Deck deck_of(Optimizer type, int stage, Dtype dtype) {
  Deck d = small_deck(stage, 2 * world());
  d.run.reductions = Reductions::ordered;
  d.zero.optimizer = spec_of(type);
  set_precision(d, dtype, dtype);
  return d;
}

struct Ran {
  Outcome outcome;
  LinkVolume step{};
};

Ran run(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  train_as_predicted(t, 3);
  EXPECT_EQ(t.executor().carried(), copies_of_runs(t.program(), t.planned_runs()));
  Ran ran{{t.losses, t.norms, t.hashes()}, steady_link_volume(t.program())};
  EXPECT_EQ(ran.outcome.hashes.disagreement, "");
  return ran;
}

TEST(Optimizers, AreBitwiseEqualAtAllStages) {
  for (const Optimizer type : on_device)
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      std::vector<Outcome> all;
      for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
        for (const int stage : {0, 1, 2, 3}) {
          Deck deck = deck_of(type, stage, dtype);
          deck.run.schedule = schedule;
          if (stage == 1) deck.run.memory_mode = MemoryMode::pooled;
          all.push_back(run(deck).outcome);
          EXPECT_EQ(all.back(), all.front())
              << to_string(type) << ", " << to_string(schedule) << ", stage " << stage;
        }
      EXPECT_EQ(all[0].hashes.of[State::momentum] != 0, has_moment(type, State::momentum));
      EXPECT_EQ(all[0].hashes.of[State::variance] != 0, has_moment(type, State::variance));
    }
}

enum class Place { device, host, files };

Deck offloaded(Optimizer type, int stage, Place place) {
  Deck d = deck_of(type, stage, Dtype::bf16);
  d.zero.knobs.sub_group_size = 9000;
  OffloadSpec& o = d.zero.offload_optimizer;
  o.enabled = place != Place::device;
  o.nvme = place == Place::files;
  o.nvme_path = std::filesystem::temp_directory_path();
  o.buffer_count = 12;
  o.pipeline_read = true;
  d.zero.aio.least_bytes = 4096;
  d.zero.aio.alignment_bytes = 512;
  return d;
}

// DeepSpeed's Lion for the host has a second state, which is in files too, but never changes.
TEST(Optimizers, AreBitwiseEqualWithOffload) {
  for (const Optimizer type :
       {Optimizer::host_lion, Optimizer::sgd, Optimizer::momentum_sgd, Optimizer::adagrad}) {
    for (const int stage : {2, 3})
      EXPECT_EQ(run(offloaded(type, stage, Place::host)).outcome,
                run(offloaded(type, stage, Place::device)).outcome)
          << to_string(type) << " at stage " << stage;
    EXPECT_EQ(run(offloaded(type, 3, Place::files)).outcome,
              run(offloaded(type, 3, Place::device)).outcome)
        << to_string(type) << " in files";
  }
}

// Bytes of files that a step reads: each state and the gradients once.
TEST(Optimizers, ReadAsManyStatesFromFilesAsTheyHave) {
  const auto read_by = [](Optimizer type) {
    const Deck deck = offloaded(type, 3, Place::files);
    const Program p =
        build_program(deck, Training::batch_of(deck, MPI_COMM_WORLD), world(), 0, Profile{});
    return steady_link_volume(p)[Direction::nvme_to_host].bytes;
  };
  const std::int64_t none = read_by(Optimizer::sgd);
  const std::int64_t one = read_by(Optimizer::momentum_sgd) - none;
  EXPECT_GT(one, 0);
  EXPECT_EQ(read_by(Optimizer::adagrad), none + one);
  EXPECT_EQ(read_by(Optimizer::host_lion), none + 2 * one);
  EXPECT_EQ(read_by(Optimizer::adamw), none + 2 * one);
}

constexpr int steps = 4, stop_after = 2;

Outcome to_the_end(CheckpointedRun& run, bool writes) {
  for (std::int64_t s = run.checkpoints.first_step(); s < steps; ++s) {
    run.training.step();
    if (writes && s + 1 == stop_after) run.write();
  }
  run.checkpoints.finish();
  return {{run.training.losses.back()}, {run.training.norms.back()}, run.training.hashes()};
}

// Ends with status 4 on all ranks; the rank that speaks names both optimizers.
void expect_refused(const Deck& deck, const std::string& path, Optimizer wrote) {
  try {
    const CheckpointedRun run(with_checkpoints(deck, path, "latest", 0), MPI_COMM_WORLD);
    ADD_FAILURE() << "goes on with the states of " << to_string(wrote);
  } catch (const AgreedError& e) {
    const std::string said = e.what();
    EXPECT_EQ(e.status(), ExitStatus::output);
    for (const Optimizer o : {wrote, deck.zero.optimizer.type})
      EXPECT_TRUE(said.empty() || said.find(to_string(o)) != std::string::npos) << said;
  }
}

TEST(Optimizers, ResumeTheirOwnStatesOnly) {
  for (const Optimizer type :
       {Optimizer::host_lion, Optimizer::sgd, Optimizer::momentum_sgd, Optimizer::adagrad}) {
    SCOPED_TRACE(to_string(type));
    const SharedFolder folder;
    Deck deck = deck_of(type, 2, Dtype::bf16);
    deck.zero.offload_optimizer.enabled = type == Optimizer::host_lion;
    deck.checkpoint.async = type == Optimizer::adagrad;
    const Outcome expected = [&] {
      CheckpointedRun whole(with_checkpoints(deck, folder.path()), MPI_COMM_WORLD);
      return to_the_end(whole, true);
    }();
    Deck other = deck_of(type == Optimizer::host_lion ? Optimizer::lion : type, 3, Dtype::bf16);
    other.run.schedule = Schedule::paper;
    {
      CheckpointedRun again(with_checkpoints(other, folder.path(), "latest", 0), MPI_COMM_WORLD);
      EXPECT_EQ(again.checkpoints.first_step(), stop_after);
      EXPECT_EQ(to_the_end(again, false), expected);
    }
    for (const Optimizer wrong : all_values<Optimizer>)
      if (!share_states(type, wrong))
        expect_refused(deck_of(wrong, 1, Dtype::bf16), folder.path(), type);
  }
}

}  // namespace
}  // namespace shardmark::test::optimizers_test
