// SPDX-License-Identifier: Apache-2.0
// Writes a program event by event for the schedules. The writer records which slots are alive and
// which events touched them last, and so adds exactly the order edges between queues that the
// operands require (read after write, write after read, write after write, and release after every
// use). `check` proves the edges again from the events alone.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <core/plan/accesses.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// The slot number that means that there is no slot.
inline constexpr int no_slot = -1;

/// What schedules give as a group to mean the ranks that share the partition, which are the world
/// unless the mesh has more axes than data. An event has that group's index in Program::groups.
inline constexpr int of_partition = 0;
/// What they give to mean all ranks.
inline constexpr int of_all = -1;

/// Appends events to the segments of one program.
class PlanWriter {
 public:
  explicit PlanWriter(Program& program) : program_(program) {}

  /// Declares a slot, which is not alive yet, and returns its index.
  int slot(std::string name, Category category, Dtype dtype, std::int64_t elems,
           Tier tier = Tier::device, std::string_view kind = {}, bool pinned = false);
  bool alive(int slot) const { return alive_.contains(slot); }
  const Slot& operator[](int slot) const { return program_.slots[slot]; }

  /// Opens a segment and returns its index. Its entry is what the segment before left alive, or
  /// what `resume` gave.
  int begin(SegmentKind kind, std::string name, Gradients gradients);
  /// Closes the segment. Its exit is what is alive now; all lanes are joined.
  void end(Gradients gradients);
  /// Lets the next segment follow one that ended in this state.
  void resume(const EndState& end) { alive_ = {end.alive.begin(), end.alive.end()}; }

  void phase(Phase phase, int micro_batch = 0) { phase_ = phase, micro_batch_ = micro_batch; }
  void acquire(int slot);
  void release(int slot);
  /// Acquires slots unless they are alive. There may be no_slot among them.
  void ensure(std::initializer_list<int> slots) {
    for (const int s : slots)
      if (s != no_slot && !alive(s)) acquire(s);
  }
  /// Releases slots unless they are not alive; no_slot never is.
  void drop(int slot) {
    if (alive(slot)) release(slot);
  }
  void drop(std::initializer_list<int> slots) {
    for (const int s : slots) drop(s);
  }
  /// The order of operands is the kernel's contract (kernels.hpp).
  Event& compute(Kernel kernel, std::span<const Operand> operands,
                 std::span<const int> params = {});
  Event& compute(Kernel kernel, std::initializer_list<Operand> operands,
                 std::span<const int> params = {}) {
    return compute(kernel, std::span(operands.begin(), operands.size()), params);
  }
  /// into = from / divisor, in one pass over memory.
  Event& convert(Operand into, Operand from, double divisor = 1);
  /// into += from.
  Event& accumulate(Operand into, Operand from) {
    return compute(Kernel::accumulate, {into, from});
  }
  /// The second if `adds`, and else the first, which needs no value in `into`.
  Event& store(Operand into, Operand from, bool adds);
  /// Adds to what a slot holds, or lets it begin with these values if it is not alive.
  void add_to(int slot, Operand from);
  /// Sends and receives as `dtype`, which may differ from the slots' types: byte views are
  /// broadcast as uint8.
  Event& collective(Op op, Reduction reduction, Dtype dtype, std::int64_t elems,
                    std::span<const Operand> operands, std::span<const int> params = {},
                    int group = of_partition, int root = -1);
  /// Sends and receives in the type of the slots. The larger range is that of the whole array.
  Event& collective(Op op, Reduction reduction, Operand send, Operand receive,
                    std::span<const int> params = {}, int group = of_partition, int root = -1,
                    std::optional<Operand> scratch = {});
  /// An all_to_all whose parts may differ: how many elements this rank sends to each rank
  /// and receives from each, and the most that any two ranks exchange.
  Event& exchange(Operand send, Operand receive, std::span<const std::int64_t> to,
                  std::span<const std::int64_t> from, std::int64_t largest_part,
                  std::span<const int> params, int group = of_partition);
  /// Copies from one tier to another, in the same type and size. Files are reached from the host
  /// only.
  Event& copy(Operand source, Operand destination);

  Operand whole(int slot, bool reads, bool writes) const {
    return {slot, writes, reads, 0, program_.slots[slot].elems};
  }
  // Needs nothing of the writer, but belongs to `whole` and is called like it.
  // NOLINTNEXTLINE(readability-convert-member-functions-to-static)
  Operand part(int slot, std::int64_t offset, std::int64_t elems, bool reads, bool writes) const {
    return {slot, writes, reads, offset, elems};
  }
  Operand read(int slot) const { return whole(slot, true, false); }
  Operand write(int slot) const { return whole(slot, false, true); }
  Operand update(int slot) const { return whole(slot, true, true); }
  /// Operands of `elems` elements of a slot, from element `offset` on.
  Operand read(int slot, std::int64_t offset, std::int64_t elems) const {
    return part(slot, offset, elems, true, false);
  }
  Operand write(int slot, std::int64_t offset, std::int64_t elems) const {
    return part(slot, offset, elems, false, true);
  }
  Operand update(int slot, std::int64_t offset, std::int64_t elems) const {
    return part(slot, offset, elems, true, true);
  }
  /// The range of an operand, or a part of it from its element `first` on, whatever it was for.
  Operand read(const Operand& o) const { return read(o.slot, o.offset, o.elems); }
  Operand write(const Operand& o) const { return write(o.slot, o.offset, o.elems); }
  Operand update(const Operand& o) const { return update(o.slot, o.offset, o.elems); }
  Operand read(const Operand& o, std::int64_t first, std::int64_t elems) const {
    return read(o.slot, o.offset + first, elems);
  }

 private:
  // For each queue the last event that is known to be complete.
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
  std::vector<Clock> clock_of_;             // by event of the open segment: the clock of its queue
  std::vector<Accesses> accesses_;          // by slot, in the open segment
  Event passed_over_;  // the last event that was not kept, where only collectives are written
};

}  // namespace shardmark
