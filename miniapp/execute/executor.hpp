// SPDX-License-Identifier: Apache-2.0
// Runs a program: the only interpreter that touches a device or a network. Buffers are allocated
// and freed where the events say, collectives start where they stand and are waited for where an
// order edge asks, all on the calling thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comm/communicator.hpp>
#include <comm/idle.hpp>
#include <core/kokkos_shim.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/execute/copy_engine.hpp>
#include <miniapp/execute/disk_lane.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/execute/slot_memory.hpp>
#include <miniapp/execute/step_trace.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {

struct ExecutorOptions {
  Fault fault = Fault::none;
  Idle idle = {};                            // what it does between two looks at several groups
  std::optional<double> link_gb_per_s = {};  // of the link between host and device, where emulated
  DiskOptions disk = {};                     // where the program has states in files
};

class Executor {
 public:
  /// `groups[g]` is the communicator of Program::groups[g], more may follow; `ledger` may be null.
  /// All must outlive it. Throws DeckError where the program computes on the host beside a device.
  Executor(const Program& program, Model& model, std::vector<Communicator*> groups, Space space,
           Ledger* ledger, ExecutorOptions options = {});

  /// Collective over the program's groups. Runs one segment of Program::segments; at its end
  /// nothing is in flight. Throws CommError, MemoryError, IoError (states in files).
  void run(int segment, const StepValues& values);

  /// The global gradient norm that the last step made (of unscaled gradients).
  double norm() const { return norm_; }
  /// Whether the boundary that was run last found gradients that are not finite.
  bool overflowed() const { return overflowed_; }

  /// Lets collectives advance: called between kernels.
  void poll();

  /// Address and size of a live slot's first element. Files are mapped for it, until
  /// `unmap_files`.
  Bound slot(int slot) const;
  /// The live slot called `name`, -1 if there is none.
  int find_slot(std::string_view name) const;

  /// Events of what is run from now on are noted in `trace`, which must outlive that; null: none.
  void trace(StepTrace* trace) { trace_ = trace; }

  const LaneTimes& times() const { return times_; }
  void reset_times() {
    times_ = {};
    link_.reset_times();
    disk_.reset_times();
  }
  /// Copies between host and device go on that lane, where one is; before the first segment. Only
  /// for pooled memory: a slot that is freed at its release may still be under way there. The host
  /// hands over to files, so with states in files it waits for each copy.
  void copies_on(std::unique_ptr<CopyLane> lane);
  /// What was copied between tiers, of the whole run and, since `reset_times`, for how long.
  LinkVolume carried() const;
  LinkTimesByDirection link_times() const;
  const DiskLane& disk() const { return disk_; }
  /// States in files: their sizes, as the file system has them.
  const TierLedger& files() const { return memory_.files(); }
  void unmap_files() const { memory_.unmap_files(); }
  Communicator& world() const { return *groups_[0]; }

 private:
  void run_event(const Segment& segment, int index, const StepValues& values);
  void compute(const Event& event, const StepValues& values);
  void release(const Event& event);
  void start_collective(const Event& event, int index);
  void start_copy(const Event& event, int index);
  void start_transfer(const Event& event, int index);
  void wait_for_copy(const Event& event, int index);
  void wait_for_transfer(const Event& event, int index);
  void finish_copies();
  void wait_for(const Segment& segment, std::int32_t index);
  void wait_in(int group, Ticket ticket);
  void await_compute();
  void look_for_overflow(const Segment& segment);
  Bound bind(const Operand& operand) const;
  std::span<const Operand> operands(const Event& event) const;

  const Program& program_;
  Model& model_;
  std::vector<Communicator*> groups_;
  Space space_;
  ExecutorOptions options_;
  StepTrace* trace_ = nullptr;
  SlotMemory memory_;
  CopyEngine link_;
  DiskLane disk_;
  std::vector<Ticket> tickets_;             // by event of the running segment; 0: none
  std::vector<std::int64_t> copied_ns_;     // the same: when a copy is done; 0: it was waited for
  std::vector<CopyLane::Number> on_lane_;   // the same: a copy on a lane of the device; 0: none
  std::vector<std::int64_t> transfers_;     // the same: its number on the disk lane; 0: waited for
  std::vector<int> traced_transfers_;       // the same: its index in StepTrace::copies
  std::vector<std::size_t> traced_copies_;  // of those on the lane, in order: StepTrace::events
  std::vector<Ticket> held_;                // by group: the last that the compute lane waits for
  std::vector<std::string> collective_names_;  // by slot: kept alive for messages
  std::vector<Bound> bound_;                   // of the event at hand
  bool leaked_ = false;                        // Fault::leak
  LaneTimes times_;
  std::int64_t waited_for_copies_ns_ = 0;  // by the compute lane, since the start
  double norm_ = 0;
  bool overflowed_ = false;
};

}  // namespace shardmark
