// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: the one that it resumes from, and those that it writes. Here the ranks
// agree; io/checkpoint knows files and formats.
#pragma once

#include <functional>
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
#include <miniapp/measure/result.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// All checkpoints of one run. Ranks that fail make every rank throw the same AgreedError.
class Checkpoints {
 public:
  /// Collective. Locks the folder if the run writes checkpoints, finds the checkpoint that the deck
  /// resumes from, and proves that it can be read. All must outlive it. Throws AgreedError.
  Checkpoints(const LoadedDeck& loaded, const Program& program, MPI_Comm world, Peers& peers);

  /// One sentence about where the run resumes; empty if the deck does not resume.
  const std::string& notice() const { return notice_; }
  /// Steps that are done before this run.
  std::int64_t first_step() const { return figures_.first_step; }

  /// Collective, after the program's start-up. If the run resumes, reads every state into its place
  /// and sets `runner` to the position of the checkpoint. Throws AgreedError.
  void restore(const Executor& executor, StepRunner& runner);

  /// Whether a checkpoint is written when so many steps are done.
  bool due(std::int64_t steps_done) const {
    return spec_.every > 0 && steps_done % spec_.every == 0;
  }
  /// Whether the deck has the section, so that a run which is stopped can write a checkpoint.
  bool possible() const { return !spec_.dir.empty(); }
  /// Collective, between two steps. The checkpoint before stays until this one is published. An
  /// asynchronous write returns when the states are copied aside. Throws AgreedError, also for an
  /// error of the asynchronous write before.
  void write(const Executor& executor, const StepRunner& runner);
  /// Collective. Waits until an asynchronous write is published. Throws AgreedError.
  void finish();
  /// Collective. Runs the storage benchmark: writes and reads as often as the deck says, and times
  /// each. `say` is called on every rank after each of them, with a line such as "write 3/10  1.2
  /// GiB in 0.84 s, 1.43 GiB/s". Throws AgreedError.
  void measure(const Executor& executor, const StepRunner& runner,
               const std::function<void(const std::string&)>& say);

  const CheckpointFigures& figures() const { return figures_; }

 private:
  void open_for_writing();
  void require_shared_folder();
  void find();
  void find_newest_good();
  void go_on_from(const std::string& name);
  void require_same_model() const;
  void require_same_optimizer() const;
  std::string begin(const StepRunner& runner);
  double write_now(const Executor& executor, const std::string& folder);
  void write_beside(const Executor& executor, const std::string& folder);
  double read_of_next_rank(const std::string& folder);
  int view_of_rank(int rank) const;
  void record_parts(const std::vector<WrittenPart>& notes);
  void clean_up();
  template<class Body>
  void or_abandon(Body body);

  const LoadedDeck& loaded_;
  const CheckpointSpec& spec_;
  const Program& program_;
  MPI_Comm world_;
  Peers& peers_;
  std::optional<CheckpointWriterFolder> folder_;  // of rank 0
  std::optional<Manifest> from_;
  std::vector<std::string> damaged_;  // checkpoints that were tried before `from_`
  std::vector<ElementRange> owned_;
  std::optional<FileGroup> group_;
  std::string name_;  // of the checkpoint that is being written, or of the last one
  Manifest next_;     // the same; an asynchronous write owns it until it is finished
  std::string notice_;
  CheckpointFigures figures_;
  double own_write_s_ = 0, own_read_s_ = 0;  // of this rank's parts, without waiting for others
  std::optional<BackgroundWrite>
      beside_;  // the last member, since its thread uses all of the above
};

}  // namespace shardmark
