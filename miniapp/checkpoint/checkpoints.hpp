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
#include <io/deck/deck_reader.hpp>
#include <miniapp/checkpoint/background_write.hpp>
#include <miniapp/checkpoint/file_group.hpp>
#include <miniapp/execute/step_runner.hpp>
#include <miniapp/measure/checkpoint_figures.hpp>
#include <miniapp/ranks/peers.hpp>

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
  /// Collective, between two steps. What was published before stays until this one is.
  /// Asynchronous: returns when the states are copied aside. Throws AgreedError, also of the one
  /// before.
  void write(const Executor& executor, const StepRunner& runner);
  /// Collective. Waits until what is being written beside training is published. Throws
  /// AgreedError.
  void finish();
  /// Collective. Writes and reads as often as the deck's benchmark says, each timed on its own.
  void measure(const Executor& executor, const StepRunner& runner);

  const CheckpointFigures& figures() const { return figures_; }

 private:
  void find();
  void require_same_model() const;
  std::string begin(const StepRunner& runner);
  double write_now(const Executor& executor, const std::string& folder);
  void write_beside(const Executor& executor, const std::string& folder);
  double read_of_next_rank(const std::string& folder);
  void take_notes(const std::vector<PartNote>& notes);
  void clean_up();
  template<class Body>
  void or_abandon(Body body);

  const LoadedDeck& loaded_;
  const CheckpointSpec& spec_;
  const Program& program_;
  Peers& peers_;
  std::optional<CheckpointWriterFolder> folder_;  // of rank 0
  std::optional<Manifest> from_;
  std::vector<ElementRange> owned_;
  std::optional<FileGroup> group_;
  std::string name_;  // of the one being written, or of the last
  Manifest next_;     // the same; asynchronous: the thread's until it is finished
  std::string notice_;
  CheckpointFigures figures_;
  std::optional<BackgroundWrite> beside_;  // last: its thread uses all of the above
};

}  // namespace shardmark
