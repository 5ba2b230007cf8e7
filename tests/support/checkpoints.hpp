// SPDX-License-Identifier: Apache-2.0
// What tests of checkpoints share: a folder that all ranks know, and a run with checkpoints.
#pragma once

#include <filesystem>
#include <string>

#include <mpi.h>
#include <stdlib.h>

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

}  // namespace shardmark::test
