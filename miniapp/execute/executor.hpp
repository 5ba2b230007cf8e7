// SPDX-License-Identifier: Apache-2.0
// Runs a program. It is the only interpreter that uses a device or a network. Buffers are allocated
// and freed where the events say; collectives and copies are started where their events are, and
// are waited for where an order edge requires it, all on the calling thread. Each queue
// (collectives, the link between host and device, files) has the same four functions:
//   start      puts an operation into the queue and returns its number, from 1
//   hold       makes what the compute lane does next come after an operation, or waits for it
//   progress   lets operations advance that need the host for that
//   finish     waits until the queue is empty
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comm/communicator.hpp>
#include <comm/idle.hpp>
#include <core/kokkos_shim.hpp>
#include <core/memory/slot_watch.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/execute/collective_queue.hpp>
#include <miniapp/execute/disk_queue.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/execute/link_queue.hpp>
#include <miniapp/execute/routed_excess.hpp>
#include <miniapp/execute/slot_memory.hpp>
#include <miniapp/execute/step_trace.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {

/// What a run sets beside its program.
struct ExecutorOptions {
  Fault fault = Fault::none;
  Idle idle = {};                            // how a rank pauses while it waits for several groups
  std::optional<double> link_gb_per_s = {};  // bandwidth of an emulated link of host and device
  DiskOptions disk = {};                     // of states in files
};

/// Identifies a started operation until it is finished.
struct InFlight {
  std::uint64_t number = 0;  // in its queue; 0: none, or the compute lane is held already
  std::optional<std::size_t>
      traced_copy;  // its index in StepTrace::copies, if its times come later
};

/// Runs the segments of one program on one rank, with its memory, its collectives and its clocks.
class Executor {
 public:
  /// `groups[g]` is the communicator of Program::groups[g]; more may follow. `ledger` may be null.
  /// All must outlive the executor. Throws DeckError if the program computes in host memory that
  /// this build's device cannot reach, and MemoryError.
  Executor(const Program& program, Model& model, std::vector<Communicator*> groups,
           const Space& space, Ledger* ledger, ExecutorOptions options = {});

  /// Collective over the program's groups. Runs one segment of Program::segments; at its end
  /// nothing is in flight. Throws CommError, MemoryError, IoError (states in files).
  void run(int segment, const StepValues& values);

  /// How often each segment has been run.
  const std::vector<std::int64_t>& runs() const { return runs_; }
  /// What learned routing has made the experts' group send beyond the plan.
  const RoutedExcess& routed() const { return routed_; }

  /// The global gradient norm that the last step made (of unscaled gradients).
  double norm() const { return norm_; }
  /// The loss of this rank's samples in the last step, summed over its micro-batches; NaN if
  /// nothing is trained. Waits for the work on the compute stream.
  double loss() const;
  /// Whether the last boundary segment found gradients that are not finite.
  bool overflowed() const { return overflowed_; }

  /// Lets collectives advance: called between kernels. The time counts as exposed unless the caller
  /// is `emulating` a kernel.
  void poll(bool emulating);

  /// Address of a live slot's first element, and its size. A file is mapped until `unmap_files`.
  Bound slot(int slot) const;
  /// The live slot called `name`, -1 if there is none.
  int find_slot(std::string_view name) const;

  /// Traces the events that are run from now on into `trace`, which must outlive them; null: none.
  void trace(StepTrace* trace) { trace_ = trace; }

  /// Calls `enters` where a segment or an event of another phase begins; empty: not at all.
  void on_phase(std::function<void(Phase)> enters) { enters_phase_ = std::move(enters); }

  /// Watches how slots are used, until `end_watch`. To be called before the first segment. Memory
  /// that kernels use on a device is not watched: the host does not reach it, or does not wait.
  void watch_slots() {
    if constexpr (device_is_host) watch_.emplace(program_);
  }
  /// Ends the watch, if there is one. Nothing may be in flight.
  SlotUse end_watch();

  const LaneTimes& times() const { return times_; }
  void reset_times() {
    times_ = {};
    link_.reset_times();
    disk_.reset_times();
  }
  /// Copies between host and device on `lane`; null: at once. To be called before the first
  /// segment. Only pooled memory uses the lane, since a copy may still be in flight when its slot
  /// is freed. With states in files the host waits for each copy, because it passes the data on.
  void copies_on(std::unique_ptr<CopyLane> lane);
  /// What was copied between tiers in the whole run, and how long that took since `reset_times`.
  LinkVolume carried() const;
  LinkTimesByDirection link_times() const;
  const DiskQueue& disk() const { return disk_; }
  /// The sizes of states in files, as the file system reports them.
  const TierLedger& files() const { return memory_.files(); }
  void unmap_files() const { memory_.unmap_files(); }
  Communicator& world() const { return collectives_.world(); }

 private:
  void run_event(const Segment& segment, int index, const StepValues& values);
  void compute(const Event& event, const StepValues& values);
  void acquire(const Event& event);
  void release(const Event& event);
  void overrun(const Event& event);
  void start_collective(const Event& event, InFlight& started);
  void start_copy(const Event& event, InFlight& started);
  void start_transfer(const Event& event, InFlight& started);
  void hold_copy(const Event& event, InFlight& started);
  std::size_t trace_copy(const Carried& carried);
  std::int64_t count_waiting(std::int64_t start_ns);
  void finish_copies();
  void wait_for(const Segment& segment, std::int32_t index);
  void await_compute();
  void look_for_overflow(const Segment& segment);
  Bound bind(const Operand& operand) const;
  std::span<const Operand> operands(const Event& event) const;
  void take_routed_parts(const Event& event, Collective& c);

  const Program& program_;
  Model& model_;
  Space space_;
  ExecutorOptions options_;
  StepTrace* trace_ = nullptr;
  std::function<void(Phase)> enters_phase_;
  SlotMemory memory_;
  std::optional<SlotWatch> watch_;
  CollectiveQueue collectives_;
  LinkQueue link_;
  DiskQueue disk_;
  std::vector<std::int64_t> runs_;  // by segment
  RoutedExcess routed_;
  std::vector<InFlight> in_flight_;            // by event of the running segment
  std::vector<std::string> collective_names_;  // by slot: messages of collectives view them
  std::vector<Bound> bound_;                   // operands of the current event
  bool leaked_ = false;                        // Fault::leak
  LaneTimes times_;
  std::int64_t waited_for_copies_ns_ = 0;  // by the compute lane, since the start
  double norm_ = 0;
  bool overflowed_ = false;
};

}  // namespace shardmark
