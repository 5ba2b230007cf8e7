// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: what it goes on from, and what it writes. The ranks agree here; files and
// formats are io/checkpoint's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/deck.hpp>
#include <miniapp/checkpoint_figures.hpp>
#include <miniapp/file_group.hpp>
#include <miniapp/peers.hpp>
#include <miniapp/step_runner.hpp>

namespace shardmark {

class Checkpoints {
 public:
  /// Collective. Locks the folder where something is to be written, and finds and proves readable
  /// what the deck wants to go on from. All must outlive it. Throws AgreedError.
  Checkpoints(const LoadedDeck& loaded, const Program& program, MPI_Comm world, Peers& peers);

  /// What the deck says of resuming, in a sentence; empty: nothing.
  const std::string& notice() const { return notice_; }
  /// Steps that are done before this run.
  std::int64_t first_step() const { return figures_.first_step; }

  /// Collective, after the program's start-up. Where there is something to go on from, puts every
  /// state into its place and `runner` where it was. Throws AgreedError.
  void restore(const Executor& executor, StepRunner& runner);

  /// Whether one is to be written when so many steps are done.
  bool due(std::int64_t steps_done) const {
    return spec_.every > 0 && steps_done % spec_.every == 0;
  }
  /// Collective, between two steps. Throws AgreedError; what was there before is then still there.
  void write(const Executor& executor, const StepRunner& runner);

  const CheckpointFigures& figures() const { return figures_; }

 private:
  void find();
  void require_same_model() const;
  void write_files(const Executor& executor, const std::string& folder);

  const LoadedDeck& loaded_;
  const CheckpointSpec& spec_;
  const Program& program_;
  Peers& peers_;
  std::optional<CheckpointWriterFolder> folder_;  // of rank 0
  std::optional<Manifest> from_;
  std::vector<ElementRange> owned_;
  std::optional<FileGroup> group_;
  Manifest next_;  // the one being written
  std::string notice_;
  CheckpointFigures figures_;
};

}  // namespace shardmark
