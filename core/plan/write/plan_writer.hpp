// SPDX-License-Identifier: Apache-2.0
// Writes a program event by event for the schedules. It keeps track of what is alive and of who
// touched which slot last, and so adds exactly the order edges between queues that the operands
// call for (read after write, write after read, write after write; release after every use).
// `check` proves them again, from the events alone.
#pragma once

#include <array>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <core/plan/accesses.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// Appends events to the segments of one program.
class PlanWriter {
 public:
  explicit PlanWriter(Program& program) : program_(program) {}

  /// Declares a slot; it is not alive yet. Returns its index.
  int slot(std::string name, Category category, Dtype dtype, std::int64_t elems,
           Tier tier = Tier::device, std::string_view kind = {}, bool pinned = false);
  bool alive(int slot) const { return alive_.contains(slot); }
  const Slot& operator[](int slot) const { return program_.slots[slot]; }

  /// Opens a segment whose entry is what is alive now: what the segment written before left, or
  /// what `resume` said. Returns its index.
  int begin(SegmentKind kind, std::string name, Gradients gradients);
  /// Closes it: its exit is what is alive then; all lanes are joined.
  void end(Gradients gradients);
  /// The next segment follows one that ended so.
  void resume(const EndState& end) { alive_ = {end.alive.begin(), end.alive.end()}; }

  void phase(Phase phase, int micro_batch = 0) { phase_ = phase, micro_batch_ = micro_batch; }
  void acquire(int slot);
  void release(int slot);
  /// Operand order is the kernel's contract (plan/kernels.hpp).
  Event& compute(Kernel kernel, std::span<const Operand> operands,
                 std::span<const int> params = {});
  Event& compute(Kernel kernel, std::initializer_list<Operand> operands,
                 std::span<const int> params = {}) {
    return compute(kernel, std::span(operands.begin(), operands.size()), params);
  }
  /// Sent and received as `dtype`, whatever the slots' own: byte views are broadcast as uint8.
  Event& collective(Op op, Reduction reduction, Dtype dtype, std::int64_t elems,
                    std::span<const Operand> operands, std::span<const int> params = {},
                    int group = 0, int root = -1);
  /// From one tier to another, of the same type and size; files are reached from the host only.
  Event& copy(Operand source, Operand destination);

  Operand whole(int slot, bool reads, bool writes) const {
    return {slot, writes, reads, 0, program_.slots[slot].elems};
  }
  Operand part(int slot, std::int64_t offset, std::int64_t elems, bool reads, bool writes) const {
    return {slot, writes, reads, offset, elems};
  }
  Operand read(int slot) const { return whole(slot, true, false); }
  Operand write(int slot) const { return whole(slot, false, true); }
  Operand update(int slot) const { return whole(slot, true, true); }

 private:
  // What a queue knows to be complete: the highest event index by queue.
  using Clock = std::array<std::int32_t, queue_count>;

  Event memory_event(Op op, int slot) const;
  Event& emit(Event event, std::span<const Operand> operands, std::span<const int> params);
  void order_after(int queue, std::int32_t event, std::vector<std::int32_t>& edges);

  Program& program_;
  Segment* segment_ = nullptr;
  Phase phase_ = Phase::init;
  int micro_batch_ = 0;
  std::set<std::int32_t> alive_;
  std::array<Clock, queue_count> known_{};  // by queue
  std::vector<Clock> clock_of_;             // by event of the open segment: what its queue knew
  std::vector<Accesses> accesses_;          // by slot, in the open segment
};

}  // namespace shardmark
