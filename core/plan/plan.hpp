// SPDX-License-Identifier: Apache-2.0
// A training step as plain data. A *program* is a handful of *plans* (segments); a plan is a vector
// of small flat *events* in issue order; *slots* are the buffers that events act on. Interpreters
// read them: check, print, footprint, volume, and the executor, the only one that touches a device.
//
// From ZeRO-3 under `paper`, as `shardmark plan` prints it (tests/golden/ has whole plans):
//
// clang-format off
//     2 f0   compute  acquire        gathered.embed (device gathered, 3936 bytes)
//     3 f0   comm     all_gather     gathered.embed <- param.embed (fp32 x 984)  after 2
//     4 f0   compute  acquire        gathered.block0 (device gathered, 28896 bytes)
//     5 f0   comm     all_gather     gathered.block0 <- param.block0 (fp32 x 7224)  after 4
//     7 f0   compute  forward        wte: gathered.embed[0, +732] r, tokens r, x.block0 w  after 3
// clang-format on
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/deck/deck.hpp>
#include <core/plan/deck/types.hpp>
#include <core/plan/model/model_shape.hpp>
#include <core/plan/partition/unit_partition.hpp>

namespace shardmark {

/// A run of entries in one of the program's side arrays.
struct Range {
  std::int32_t first = 0, count = 0;
};

/// A buffer: acquired, used and released by events. `alloc_bytes` sizes it for everybody.
struct Slot {
  std::string name;  // unique
  Tier tier = Tier::device;
  Category category = Category::param;
  Dtype dtype = Dtype::fp32;
  std::int64_t elems = 0;
  std::string_view kind = {};  // tells tensors of one category apart (`memory_at`); may be empty
  bool pinned = false;         // of the host: page-locked, so that copies need no bounce buffer
};

/// Bytes that acquiring `slot` allocates: its elements' own, unpadded.
/// The ledger's measured figure is exactly this, as is the footprint's predicted one.
std::int64_t alloc_bytes(const Slot& slot);

/// One slot range that an event touches.
struct Operand {
  std::int32_t slot = -1;
  bool writes = false;
  bool reads = false;
  std::int64_t offset = 0, elems = 0;  // elements of the slot's dtype
};

/// One step of a plan. Collectives: `elems` is nccl-tests' S (the whole array), the first operand
/// is the send range, the second the receive range, a third the scratch. Copies go from one tier to
/// another: source, destination; between memories on the copy lane, between the host's and files on
/// the disk's. Computes work within one tier, which is a memory.
struct Event {
  Op op = Op::compute;
  Kernel kernel = Kernel::none;
  Lane lane = Lane::compute;
  Phase phase = Phase::init;
  Tier tier = Tier::device;
  Category category = Category::param;
  Dtype dtype = Dtype::fp32;
  Reduction reduction = Reduction::none;
  std::int32_t micro_batch = 0;
  std::int32_t unit = -1;    // of the schedule `paper`: what is sharded and gathered as one
  std::int32_t module = -1;  // of forward and backward
  std::int32_t slot = -1;    // acquire, release: the buffer
  std::int32_t group = 0;    // in Program::groups; interleave, rearrange: rows are its ranks
  std::int32_t root = -1;    // reduce, broadcast: rank within the group
  std::int64_t elems = 0;
  std::int64_t first = 0;  // init_param: element of the parameter at which the operand starts
  double divisor = 1;      // scale, convert, interleave: what their values are divided by
  Range operands;          // in Program::operands
  Range params;  // in Program::param_ids: the module's; whose gradients are reduced or applied
  Range after;   // in Program::edges: events of other lanes that must be complete before
};

/// Whether gradients are pending at a segment's end. check proves that junctions agree.
enum class Gradients : std::uint8_t { none, accumulated, reduced };

/// Groups that a program has at most: the world and, where states are cut in two levels, two more.
inline constexpr int max_groups = 3;
/// A queue of its own runs what is ordered by itself: a lane, and of the lane `comm` each group,
/// since each is a communicator of its own.
inline constexpr int queue_count = lane_count - 1 + max_groups;
constexpr int queue_of(const Event& e) {
  if (e.lane == Lane::comm) return lane_count - 1 + e.group;
  return e.lane == Lane::compute ? 0 : static_cast<int>(e.lane) - 1;
}

/// What is alive at one end of a segment.
struct EndState {
  std::vector<std::int32_t> alive;  // slots, ascending
  Gradients gradients = Gradients::none;
};

/// What a segment does; `skip` takes the place of `update` where the gradients overflowed.
enum class SegmentKind : std::uint8_t { init, micro, boundary, update, skip };

/// A plan with its ends. At its end nothing is in flight: all lanes are joined.
struct Segment {
  SegmentKind kind = SegmentKind::init;
  std::string name;  // "micro_first": unique in the program
  std::vector<Event> events;
  EndState entry, exit;
};

/// One optimizer step as segments, and which step comes after it. At stage 3 the first steps differ
/// from the later ones (the trace is being recorded), and so does one after a skipped step.
struct Step {
  std::vector<int> micros;                    // segment by micro-batch
  int boundary = -1, update = -1, skip = -1;  // skip: -1 where no step is ever skipped
  int after_update = 0, after_skip = 0;       // in Program::steps
};

/// Ranks that communicate together, in rank order. Group 0 is the world.
struct Group {
  std::string name;
  std::vector<int> ranks;  // empty: all ranks, 0..world-1 (16 384 ranks are not listed)
};

enum class State : std::uint8_t { param, master, momentum, variance };
inline constexpr int state_count = 4;

/// Where a part of a model state lies on this rank. Elements are counted over the whole model,
/// parameters one after another in registration order.
struct StatePiece {
  State state = State::param;
  std::int32_t slot = -1;
  std::int64_t offset = 0;      // in the slot
  std::int64_t first_elem = 0;  // of the model
  std::int64_t elems = 0;
};

struct Program {
  int world = 1, rank = 0, stage = 0;
  int shard_ranks = 1;  // each so many ranks hold all of a sharded state; the next ones hold it too
  std::string schedule;
  Reductions reductions = Reductions::native;
  MemoryMode memory_mode = MemoryMode::strict;
  Batch batch;
  ModelShape model;
  Partition partition;
  PrecisionSpec precision;
  std::vector<Slot> slots;
  std::vector<Group> groups;
  std::vector<Segment> segments;  // segments[0] is init
  std::vector<Step> steps;        // steps[0] is the first
  std::vector<StatePiece> states;
  // Copies of State::param that init leaves alive besides, until a step drops them: whoever sets
  // states between the two sets these too.
  std::vector<StatePiece> copies;
  std::array<bool, state_count> sharded{};  // whether a rank holds only its part of a state
  std::vector<Operand> operands;
  std::vector<std::int32_t> param_ids;
  std::vector<std::int32_t> edges;  // event indices within the same segment

  /// Which part of a sharded state this rank holds, of `shard_ranks`.
  int shard_rank() const { return rank % shard_ranks; }
  /// Ranks in a group.
  int size_of(int group) const {
    return groups[group].ranks.empty() ? world : static_cast<int>(groups[group].ranks.size());
  }
  /// Whether states are in files.
  bool has_files() const;
  /// The segment called `name`, or null.
  const Segment* find(std::string_view name) const;
};

/// "ranks 0, 2, 4, 6", or "256 ranks, 0, 8, 16 ... 2040".
std::string describe_ranks(const Group& group);

std::string_view to_string(SegmentKind);
std::string_view to_string(Gradients);
std::string_view to_string(State);

/// Segments of one step in the order in which the driver runs them; micro-batch g is the g-th.
std::vector<int> segments_of(const Step& step, bool skipped);
/// Indices of the steps that a run goes through while none is skipped, or all are, until it
/// repeats itself: the last one is the steady state.
std::vector<int> step_path(const Program& program, bool skipped);

/// What of the machine a plan depends on; never asked of MPI, so any rank of any world can be
/// planned.
struct Profile {
  int ranks_per_node = 1;
  std::string backend = "mpi";
  std::int64_t workspace_cap_bytes = std::int64_t{18} << 20;  // matrix-product scratch, one thread
  std::int64_t staging_cap_bytes = std::int64_t{64} << 20;    // of `ordered` reductions, a rank
};

/// Builds what `rank` of `world` does under the deck's schedule and stage. Pure.
/// Throws SizeError (counts beyond 63 bits), and DeckError if `rank` is not in the world, or if batch
/// sizes or groups do not fit its size.
Program build_program(const Deck& deck, const Batch& batch, int world, int rank,
                      const Profile& profile);

}  // namespace shardmark
