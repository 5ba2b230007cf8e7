// SPDX-License-Identifier: Apache-2.0
// Rules: a resumed run is equal bit for bit to one that never stopped, and with `ordered`
// reductions also on another stage and schedule. Damaged checkpoints are refused on every rank.
#include <fstream>

#include <gtest/gtest.h>

#include <core/plan/interpret/check.hpp>
#include <io/deck/deck_reader.hpp>
#include <tests/support/checkpoints.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::resume_test {
namespace {

constexpr int steps = 5;

TEST(Resume, IsBitwiseEqualToARunThatNeverStopped) {
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
        SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage) + " " +
                     std::string(to_string(dtype)));
        const SharedFolder folder;
        const std::int64_t accumulation = dtype == Dtype::fp32 ? 2 : 1;
        Deck deck = small_deck(stage, 2 * world() * accumulation, accumulation);
        deck.run.schedule = schedule;
        set_precision(deck, dtype, dtype);
        deck.zero.scheduler.type = LrSchedule::warmup;
        deck.zero.scheduler.warmup_num_steps = 4;
        if (dtype == Dtype::fp16)  // overflows at first, so that steps are skipped
          deck.zero.precision.loss_scale = {true, 0x1p26, 3, 1, false, 1};
        const Outcome whole = whole_run(deck, folder.path(), steps);
        EXPECT_EQ(resumed_run(deck, folder.path(), steps), whole);
      }
}

// A skipped step is no update, and a resumed run continues both counts.
TEST(Resume, ContinuesTheCountsOfUpdatesAndSamples) {
  const SharedFolder folder;
  Deck deck = small_deck(2, 2 * world());
  set_precision(deck, Dtype::fp16, Dtype::fp16);
  deck.zero.precision.loss_scale = {true, 0x1p22, 2, 1, false, 1};
  std::int64_t trained = 0, skipped = 0;
  for (const char* resume : {"none", "latest"}) {
    CheckpointedRun run(with_checkpoints(deck, folder.path(), resume), MPI_COMM_WORLD);
    for (int s = 0; s < 7; ++s) {
      run.training.step();
      ++trained;
      skipped += run.training.skipped.back() ? 1 : 0;
    }
    run.write();
    run.checkpoints.finish();
    const Manifest m = read_manifest(folder.path() + "/" + checkpoint_name(trained));
    EXPECT_EQ(m.position.step, trained);
    EXPECT_EQ(m.position.updates, trained - skipped);
    EXPECT_EQ(m.samples, trained * 2 * world());
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, trained);
}

// An asynchronous write stores the states of its step, although training continues.
TEST(Resume, IsBitwiseEqualFromAnAsynchronousCheckpoint) {
  for (int stage : {0, 1, 2, 3})
    for (Dtype dtype : {Dtype::fp32, Dtype::bf16})
      for (MemoryMode mode : {MemoryMode::strict, MemoryMode::pooled}) {
        const SharedFolder folder;
        Deck deck = small_deck(stage, 2 * world());
        set_precision(deck, dtype, dtype);
        deck.run.memory_mode = mode;
        deck.checkpoint.async = true;
        const Outcome whole = whole_run(deck, folder.path(), steps);
        EXPECT_EQ(resumed_run(deck, folder.path(), steps), whole) << "stage " << stage;
      }
}

TEST(Async, EachWriteWaitsForTheOneBeforeAndAllArePublished) {
  const SharedFolder folder;
  Deck deck = small_deck(3, 2 * world());
  deck.checkpoint.async = true;
  deck.checkpoint.keep = 2;
  {
    CheckpointedRun run(with_checkpoints(deck, folder.path()), MPI_COMM_WORLD);
    for (int s = 0; s < 4; ++s) {
      run.training.step();
      run.write();
    }
    run.checkpoints.finish();
    EXPECT_EQ(run.checkpoints.figures().written, 4);
  }
  EXPECT_EQ(published_checkpoints(folder.path()),
            (std::vector<std::string>{checkpoint_name(3), checkpoint_name(4)}));
}

// If a checkpoint cannot be published, all ranks stop, and the one before stays.
TEST(Async, AFailureIsReportedAtTheNextWrite) {
  const SharedFolder folder;
  Deck deck = small_deck(3, 2 * world());
  deck.checkpoint.async = true;
  CheckpointedRun run(with_checkpoints(deck, folder.path()), MPI_COMM_WORLD);
  run.training.step();
  run.write();
  run.checkpoints.finish();
  run.training.step();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string step = folder.path() + "/" + checkpoint_name(2);
  if (rank == 0) {  // something that is not a checkpoint has its name
    std::filesystem::create_directories(step);
    std::ofstream(step + "/mine") << "x";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  run.write();
  EXPECT_THROW(run.checkpoints.finish(), AgreedError);
  EXPECT_EQ(latest_checkpoint(folder.path()), checkpoint_name(1));
}

TEST(Resume, IsBitwiseOnAnotherStageAndScheduleWithOrderedReductions) {
  for (int stage : {0, 1, 2, 3}) {
    const SharedFolder folder;
    Deck deck = small_deck(stage, 2 * world());
    deck.run.reductions = Reductions::ordered;
    const Outcome whole = whole_run(deck, folder.path(), steps);
    for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed}) {
      Deck other = deck;
      other.zero.stage = 3 - stage;
      other.run.schedule = schedule;
      EXPECT_EQ(resumed_run(other, folder.path(), steps), whole)
          << to_string(schedule) << " from " << stage;
    }
  }
}

// Ends with status 4 on all ranks; one rank has the message.
void expect_refused(const Deck& deck, const std::vector<std::string>& says) {
  std::string said;
  int refused = 0;
  try {
    const CheckpointedRun run(deck, MPI_COMM_WORLD);
  } catch (const AgreedError& e) {
    refused = e.status() == ExitStatus::output ? 1 : 0;
    said = e.what();
  }
  const int speaks = said.empty() ? 0 : 1;
  int sums[2] = {refused, speaks}, all[2] = {};
  MPI_Allreduce(sums, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all[0], world());
  EXPECT_EQ(all[1], 1);
  if (speaks == 0) return;
  for (const std::string& part : says) EXPECT_NE(said.find(part), std::string::npos) << said;
}

// An adapter with factors of two sizes, trained biases, and copies of modules.
Deck adapter_deck(int stage, std::int64_t accumulation = 1) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", R"({
      "model": {"family": "decoder", "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2,
                "ffn": 48, "sequence": 8, "vocab": 53, "attention": {"qkv_bias": true},
                "adapter": {"rank": 4, "targets": ["q", "down"], "rank_pattern": {"1.attn.q": 3},
                            "bias": "adapted", "modules_to_save": ["head", "1.post_norm"]}},
      "data": {"source": "uniform"},
      "deepspeed": {"train_micro_batch_size_per_gpu": 1},
      "run": {"steps": 1}})");
  Deck deck = small_deck(stage, 2 * world(), accumulation);
  deck.model = load_deck(path, {}).model;
  return deck;
}

TEST(Resume, OfAnAdapterIsBitwiseEqualAndStoresNoFrozenParameter) {
  for (int stage : {0, 1, 2, 3})
    for (Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + " " + std::string(to_string(dtype)));
      const SharedFolder folder;
      Deck deck = adapter_deck(stage);
      set_precision(deck, dtype, dtype);
      deck.checkpoint.async = stage % 2 == 1;
      const Outcome whole = whole_run(deck, folder.path(), steps);
      EXPECT_EQ(resumed_run(deck, folder.path(), steps), whole);
      const Manifest m = read_manifest(folder.path() + "/" + checkpoint_name(stop_after));
      std::int64_t trained = 0;
      for (const Param& p : build_model_shape(deck.model).params)
        trained += p.trained() ? p.elems : 0;
      EXPECT_EQ(m.elems(), trained);
    }
}

TEST(Resume, OfAnAdapterIsBitwiseOnAnotherStageAndRankCountWithOrderedReductions) {
  for (int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    const SharedFolder folder;
    Deck deck = adapter_deck(stage);
    deck.run.reductions = Reductions::ordered;
    const Outcome whole = whole_run(deck, folder.path(), steps);
    deck.zero.stage = 3 - stage;
    EXPECT_EQ(resumed_run(deck, folder.path(), steps), whole);
    // Each rank alone, with the whole batch
    CheckpointedRun alone(with_checkpoints(deck, folder.path(), "latest", 0), MPI_COMM_SELF);
    for (int s = stop_after; s < steps; ++s) alone.training.step();
    const Outcome of_one = outcome_of(alone.training, 0);
    ASSERT_EQ(of_one.losses.size(), whole.losses.size());
    for (std::size_t s = 0; s < whole.losses.size(); ++s)
      EXPECT_NEAR(of_one.losses[s], whole.losses[s], 1e-6 * whole.losses[s]);
  }
}

TEST(Resume, OfAnAdapterIsRefusedBesideOtherFrozenParameters) {
  const SharedFolder folder;
  const Deck deck = adapter_deck(1);
  whole_run(deck, folder.path(), steps);
  Deck other = deck;
  other.run.seed = 4;
  expect_refused(with_checkpoints(other, folder.path(), "latest", 0),
                 {"frozen parameters", "run.seed", "manifest.json"});
  other = deck;
  Decoder wider = *deck.model.decoder;
  wider.init_std = 0.5;
  other.model.decoder = SharedDecoder(std::move(wider));
  expect_refused(with_checkpoints(other, folder.path(), "latest", 0), {"frozen parameters"});
}

// All layouts store the same numbers; shared files are written collectively.
TEST(Layout, DoesNotMatterToWhatIsRead) {
  for (std::int64_t ranks_per_file : {1, 2, 0}) {
    const SharedFolder folder;
    Deck deck = small_deck(1, 2 * world());
    deck.checkpoint.ranks_per_file = ranks_per_file;
    if (ranks_per_file != 1) deck.checkpoint.hints = {{"romio_cb_write", "enable"}};
    const Outcome whole = whole_run(deck, folder.path(), steps);
    EXPECT_EQ(resumed_run(deck, folder.path(), steps), whole);
    const Manifest m = read_manifest(folder.path() + "/" + checkpoint_name(stop_after));
    const int k = ranks_per_file == 0 ? world() : static_cast<int>(ranks_per_file);
    EXPECT_EQ(static_cast<int>(m.files.size()), (world() + k - 1) / k);
    EXPECT_EQ(static_cast<int>(m.parts.size()), world());
  }
}

TEST(Resume, LatestOfNothingIsAFreshStartAndSaysSo) {
  const SharedFolder folder;
  const Deck deck = with_checkpoints(small_deck(2, 2 * world()), folder.path(), "latest");
  CheckpointedRun run(deck, MPI_COMM_WORLD);
  EXPECT_EQ(run.checkpoints.first_step(), 0);
  EXPECT_NE(run.checkpoints.notice().find("fresh start"), std::string::npos);
}

TEST(Resume, RefusesWhatIsNotThere) {
  const SharedFolder folder;
  const Deck deck = small_deck(2, 2 * world());
  expect_refused(with_checkpoints(deck, folder.path(), "step-00000007", 0),
                 {"step-00000007", "manifest.json"});
  whole_run(deck, folder.path(), steps);
  Deck other = deck;
  other.model.hidden = 45;
  expect_refused(with_checkpoints(other, folder.path(), "latest", 0),
                 {"/step-", "/manifest.json: is of another model", "parameter 0", "wte"});
}

TEST(Resume, RefusesAChangedByteOfAnyRank) {
  const SharedFolder folder;
  const Deck deck = small_deck(1, 2 * world());
  whole_run(deck, folder.path(), steps);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string checkpoint = folder.path() + "/" + checkpoint_name(stop_after);
  const Manifest m = read_manifest(checkpoint);
  const CheckpointFile& last = m.files.back();
  const auto at = last.first_byte[State::momentum] + 8;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    std::fstream file(checkpoint + "/" + last.name,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 4));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_refused(with_checkpoints(deck, folder.path(), "latest", 0),
                 {last.name, "momentum", "checksum"});
}

}  // namespace
}  // namespace shardmark::test::resume_test
