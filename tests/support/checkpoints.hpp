// SPDX-License-Identifier: Apache-2.0
// What tests of checkpoints share: a folder that all ranks know, and a run with checkpoints.
#pragma once

#include <filesystem>
#include <string>

#include <mpi.h>
#include <stdlib.h>

#include <core/plan/interpret/check.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test {

/// A folder that one rank creates, all ranks know, and one rank removes at the end. Collective.
class SharedFolder {
 public:
  explicit SharedFolder(MPI_Comm world = MPI_COMM_WORLD) : world_(world) {
    char name[64] = "/tmp/shardmark-XXXXXX";
    if (first() && ::mkdtemp(name) == nullptr) name[0] = '\0';
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, world_);
    path_ = name;
  }
  ~SharedFolder() {
    MPI_Barrier(world_);
    std::error_code ignored;
    if (first()) std::filesystem::remove_all(path_, ignored);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool first() const {
    int rank = 0;
    MPI_Comm_rank(world_, &rank);
    return rank == 0;
  }
  MPI_Comm world_;
  std::string path_;
};

/// A run that can resume from a checkpoint and write checkpoints.
struct CheckpointedRun {
  CheckpointedRun(const Deck& deck, MPI_Comm world)
      : loaded(loaded_deck(deck)),
        training(deck, world),
        checkpoints(loaded, training.program(), world, training.peers()) {
    training.init(checkpoints);
  }
  static LoadedDeck loaded_deck(const Deck& deck) {
    LoadedDeck l;
    l.deck = deck;
    l.used_json = "{}";
    return l;
  }
  void write() { checkpoints.write(training.executor(), training.runner()); }

  LoadedDeck loaded;
  Training training;
  Checkpoints checkpoints;
};

/// Returns `deck` with a section that writes checkpoints to `dir`.
inline Deck with_checkpoints(Deck deck, const std::string& dir, const std::string& resume = "none",
                             std::int64_t every = 1) {
  deck.checkpoint.dir = dir;
  deck.checkpoint.resume = resume;
  deck.checkpoint.every = every;
  return deck;
}

/// The step after which whole_run writes its checkpoint.
inline constexpr int stop_after = 2;

/// What a run did from step `from` on, and its states, in which all copies agree. The norm of a
/// skipped step, which is not a number, is -1.
inline Outcome outcome_of(Training& t, std::size_t from) {
  const auto start = static_cast<std::ptrdiff_t>(from);
  Outcome o{{t.losses.begin() + start, t.losses.end()},
            {t.norms.begin() + start, t.norms.end()},
            t.hashes()};
  for (std::size_t i = 0; i < o.norms.size(); ++i)
    if (t.skipped[from + i]) o.norms[i] = -1;
  EXPECT_EQ(o.hashes.disagreement, "");
  return o;
}

/// Writes a checkpoint at `stop_after` and trains to the end, with calls and memory, staging
/// included, as predicted. Collective, as resumed_run.
inline Outcome whole_run(const Deck& deck, const std::string& dir, int steps) {
  CheckpointedRun run(with_checkpoints(deck, dir), MPI_COMM_WORLD);
  for (int s = 0; s < steps; ++s) {
    run.training.step();
    if (s + 1 == stop_after) run.write();
  }
  run.checkpoints.finish();
  require_legal(check(run.training.program()));
  expect_memory_as_predicted(run.training);
  expect_groups_as_predicted(run.training);
  return outcome_of(run.training, stop_after);
}

/// Goes on from that checkpoint to the end.
inline Outcome resumed_run(const Deck& deck, const std::string& dir, int steps) {
  CheckpointedRun run(with_checkpoints(deck, dir, "latest", 0), MPI_COMM_WORLD);
  EXPECT_EQ(run.checkpoints.first_step(), stop_after);
  for (int s = stop_after; s < steps; ++s) run.training.step();
  return outcome_of(run.training, 0);
}

}  // namespace shardmark::test
