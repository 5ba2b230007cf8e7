// SPDX-License-Identifier: Apache-2.0
// A training step as plain data. A *program* consists of a few *segments*, which are plans; a plan
// is a vector of small flat *events* in issue order; *slots* are the buffers that events act on.
// Interpreters read programs: check, print, footprint, volume, and the executor, which is the only
// one that touches a device.
//
// A part of ZeRO-3 under `paper`, as `shardmark plan` prints it (tests/golden/ has whole plans):
//
// clang-format off
//     2 f0   compute  acquire        gathered.embed (device gathered, 3936 bytes)
//     3 f0   comm     all_gather     gathered.embed <- param.embed (fp32 x 984)  after 2
//     4 f0   compute  acquire        gathered.block0 (device gathered, 28896 bytes)
//     5 f0   comm     all_gather     gathered.block0 <- param.block0 (fp32 x 7224)  after 4
//     7 f0   compute  forward        wte: gathered.embed[0, +732] r, tokens r, x.block0 w  after 3
// clang-format on
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <core/plan/deck/deck.hpp>
#include <core/plan/deck/types.hpp>
#include <core/plan/mesh/mesh.hpp>
#include <core/plan/model/model_shape.hpp>
#include <core/plan/partition/unit_partition.hpp>
#include <core/plan/segment_runs.hpp>

namespace shardmark {

/// A range of entries in one of the program's side arrays.
struct Range {
  std::int32_t first = 0, count = 0;
};

/// A buffer that events acquire, use and release. `alloc_bytes` is its size everywhere.
struct Slot {
  std::string name;  // unique
  Tier tier = Tier::device;
  Category category = Category::param;
  Dtype dtype = Dtype::fp32;
  std::int64_t elems = 0;
  std::string_view kind = {};  // distinguishes tensors of one category; may be empty
  bool pinned = false;         // on the host: page-locked, so that copies need no bounce buffer
  bool partly = false;         // it has room for more than a step may write
};

/// Bytes that acquiring `slot` allocates: those of its elements, without padding. The ledger
/// measures exactly this figure, and the footprint predicts it. Throws SizeError beyond 63 bits.
std::int64_t alloc_bytes(const Slot& slot);

/// A range of a slot that an event touches.
struct Operand {
  std::int32_t slot = -1;
  bool writes = false;
  bool reads = false;
  std::int64_t offset = 0, elems = 0;  // elements of the slot's dtype
};

/// Whether learned routing decides in each step how large the parts of an all_to_all are, and
/// whether its rows go away to the experts or come home. A plan has the parts that balanced routing
/// would make, in buffers that have room for more (arrivals_room).
enum class Routed : std::uint8_t { no, away, home };
template<>
inline constexpr std::size_t enum_size<Routed> = 3;

/// One event of a plan. The operands of a collective are the send range, the receive range and, if
/// there is a third, the scratch; `elems` is S of nccl-tests, the size of the whole array. If the
/// parts of an all_to_all differ, `elems` is the larger one of what this rank sends and receives.
/// The operands of a copy are the source and the destination, which lie in different tiers; copies
/// between memories run on the lane `copy`, those between host memory and files on the lane `disk`.
/// A computation works within one tier, which is a memory.
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
  std::int32_t unit = -1;    // of the schedule `paper`: gathered and reduced as one
  std::int32_t module = -1;  // of forward and backward
  std::int32_t slot = -1;    // acquire, release: the buffer
  // In Program::groups. Kernels: interleave and rearrange have one row per rank of it, sums add up
  // one part per rank.
  std::int32_t group = 0;
  std::int32_t root = -1;  // reduce, broadcast: rank within the group
  std::int64_t elems = 0;
  std::int64_t first = 0;  // init_param: element of the parameter at which the operand starts
  double divisor = 1;      // scale, convert, interleave: by which values are divided
  Range operands;          // in Program::operands
  Range params;  // in Program::param_ids: of the module, or whose gradients are reduced or applied
  Range after;   // in Program::edges: events of other lanes that must be complete first
  // Of an all_to_all whose parts differ: in Program::part_counts what this rank sends to each rank
  // of the group, and then what it receives from each; and the most that any two ranks exchange.
  Range parts;
  std::int64_t largest_part = 0;
  Routed routed = Routed::no;
};

/// Whether gradients are pending at an end of a segment. `check` proves that ends which meet agree.
enum class Gradients : std::uint8_t { none, accumulated, reduced };
template<>
inline constexpr auto value_names<Gradients> = name_list("none", "accumulated", "reduced");

/// The most groups that a program has: the world, the partition's, those of tensors and of
/// sequences, two more if states are sharded on two levels, and one more if forward leaves
/// parameters in larger parts than the optimizer's.
inline constexpr int max_groups = 7;
/// Work within one queue runs in order. Each lane is a queue, except that the lane `comm` has one
/// queue per group, since each group has its own communicator.
inline constexpr int queue_count = lane_count - 1 + max_groups;
constexpr int queue_of(const Event& e) {
  if (e.lane == Lane::comm) return lane_count - 1 + e.group;
  return e.lane == Lane::compute ? 0 : static_cast<int>(e.lane) - 1;
}

/// What is alive at an end of a segment.
struct EndState {
  std::vector<std::int32_t> alive;  // slots, ascending
  Gradients gradients = Gradients::none;
};

/// What a segment does; `skip` replaces `update` when the gradients overflowed.
enum class SegmentKind : std::uint8_t { init, micro, boundary, update, skip };
template<>
inline constexpr auto value_names<SegmentKind> = name_list("init", "micro", "boundary", "update",
                                                           "skip");

/// A plan with the state at both ends. At its exit all lanes are joined, so nothing is in flight.
struct Segment {
  SegmentKind kind = SegmentKind::init;
  std::string name;  // "micro_first": unique in the program
  std::vector<Event> events;
  EndState entry, exit;
};

/// One optimizer step as segments, and which step follows it. At stage 3 the first steps differ
/// from later ones, since the trace is being recorded, and so does a step after a skipped one.
struct Step {
  MicroBatches micros;
  int boundary = -1, update = -1, skip = -1;  // skip: -1 if no step is ever skipped
  int after_update = 0, after_skip = 0;       // in Program::steps
};

/// Ranks that communicate together, in rank order. Group 0 is the world.
struct Group {
  std::string name;
  std::vector<int> ranks;  // empty: all ranks, 0..world-1 (16 384 ranks are not listed)
};

/// Where a part of a model state lies on this rank. Elements are counted over the whole model, with
/// the parameters in registration order.
struct StatePiece {
  State state = State::param;
  std::int32_t slot = -1;
  std::int64_t offset = 0;      // in the slot
  std::int64_t first_elem = 0;  // of the model
  std::int64_t elems = 0;
};

/// How much of a program is written.
enum class Extent : std::uint8_t {
  whole,
  start_up,    // segment 0, without any step
  collectives  // all segments, with their collectives alone: what ranks must agree on
};

/// What one rank does from start-up to the last step, as plain data. Programs of different ranks of
/// one world have the same collectives in the same order.
struct Program {
  int world = 1, rank = 0, stage = 0;
  Mesh mesh;
  // In `groups`: the ranks that share the partition, those that divide layers, and those that
  // divide samples (-1: none do).
  int partition_group = 0, tensor_group = -1, sequence_group = -1;
  // The ranks that together have all experts, and those with the same ones (-1: all have all).
  int expert_group = -1, same_experts_group = -1;
  /// Whether ranks divide layers as well as experts, which DeepSpeed calls folding.
  bool folds() const { return tensor_group >= 0 && expert_group >= 0; }
  // Groups over which DeepSpeed shares the overflow flag beside the partition's, one after another;
  // over the last one it shares norms, too.
  std::vector<int> norm_groups;
  // Whether this rank counts in norms what all ranks of that group have: the first of them does.
  bool counts_whole = true;
  int norm_group() const { return norm_groups.empty() ? -1 : norm_groups.back(); }
  int shard_ranks = 1;  // ranks that together hold one copy of each sharded state
  Schedule schedule = Schedule::deepspeed;
  Reductions reductions = Reductions::native;
  MemoryMode memory_mode = MemoryMode::strict;
  Extent extent = Extent::whole;
  // Whether modules compute. Otherwise (run.compute none, a list) they make gradients of integers.
  bool trains = true;
  Batch batch;
  ModelShape model;
  Partition partition;
  PrecisionSpec precision;
  Optimizer optimizer = Optimizer::adamw;
  // Optimizer steps that start-up takes on gradients of zero, which the optimizer counts.
  std::int64_t start_up_updates = 0;
  // Whether an update of exactly 0 lowers the parameter, as DeepSpeed's Lion for the host does.
  bool zero_is_positive = false;
  // Whether backward multiplies the loss by fp16's scale, which the update divides by in any case.
  bool scales_loss = true;
  // Whether Muon's updates lack the loss scale by which clipping divides.
  bool updates_lack_scale = false;
  std::vector<Slot> slots;
  std::vector<Group> groups;
  std::vector<Segment> segments;  // segments[0] is init
  std::vector<Step> steps;        // steps[0] is the first
  int resumed_step = 0;           // with which a run goes on that is resumed from a checkpoint
  std::vector<StatePiece> states;
  // Further copies of states, which init leaves alive: of State::param, until a step drops them, or
  // of what other ranks own. Whoever sets states in between must set these too.
  std::vector<StatePiece> copies;
  EnumArray<State, bool> sharded{};  // whether a rank holds only its part of a state
  bool sums_partly_reduced =
      false;  // gradients of micro-batches add up between their two reductions
  std::vector<Operand> operands;
  std::vector<std::int32_t> param_ids;
  std::vector<std::int32_t> edges;  // event indices within the same segment
  std::vector<std::int64_t> part_counts;

  /// The ranks that share one partition of the states, and this rank's place among them.
  int partition_ranks() const { return mesh.partition_ranks(); }
  int partition_rank() const { return mesh.partition_rank(); }
  /// The group of the ranks that hold a parameter.
  int group_of(Holders h) const { return h == Holders::all ? partition_group : same_experts_group; }
  /// The group of the ranks that have the other parts beside it (-1: there are none).
  int parts_group(Holders h) const { return h == Holders::all ? tensor_group : expert_group; }
  /// How many kinds of holders parameters have.
  int kinds_of_holders() const { return same_experts_group < 0 ? 1 : 2; }
  /// The number of ranks in a group.
  int size_of(int group) const {
    return groups[group].ranks.empty() ? world : static_cast<int>(groups[group].ranks.size());
  }
  /// How many ranks of a group are on this rank's node, of which each has `ranks_per_node`.
  std::int64_t ranks_here(int group, std::int64_t ranks_per_node) const;
  std::span<const Operand> operands_of(const Event& e) const {
    return std::span(operands).subspan(static_cast<std::size_t>(e.operands.first),
                                       static_cast<std::size_t>(e.operands.count));
  }
  /// The elements of a collective's array, which are the same on all ranks. If parts differ, the
  /// array has room for the largest one per rank.
  std::int64_t array_elems(const Event& e) const {
    return e.parts.count > 0 ? e.largest_part * size_of(e.group) : e.elems;
  }
  /// Whether any state lies in a file.
  bool has_files() const;
  /// The segment called `name`, or null.
  const Segment* find(std::string_view name) const;
};

/// Where an update finds its operands besides the master and the gradient; `clip` is -1 if the
/// gradient is clipped already, `param` if the master is not rounded.
struct UpdateOperands {
  int moments = 0;  // how many there are, from operand::upd_moments on
  int clip = -1, param = -1;
};
/// The operands of `event`, which is an update.
UpdateOperands update_operands(const Program& program, const Event& event);

/// Whether sum number `sum`, from 0, of `event`, a clip, is over Muon's updates and lacks the loss
/// scale.
bool sums_updates(const Program& program, const Event& event, int sum);

/// "ranks 0, 2, 4, 6", or "256 ranks, 0, 8, 16 ... 2040".
std::string describe_ranks(const Group& group);

/// The segments of one step in the order in which the driver runs them; the first ones are the
/// micro-batches.
std::vector<SegmentRun> runs_of(const Step& step, bool skipped);
/// Indices of the steps that a run goes through if none is skipped, or if all are, until a step
/// repeats. The last one is the steady state.
std::vector<int> step_path(const Program& program, bool skipped);

/// The properties of the machine on which a plan depends. They are given and never asked of MPI, so
/// that any rank of any world can be planned.
struct Profile {
  int ranks_per_node = 1;
  std::int64_t workspace_cap_bytes = std::int64_t{18} << 20;  // scratch of products, one thread
  std::int64_t staging_cap_bytes = std::int64_t{64} << 20;    // of `ordered` reductions, per rank
};

/// Builds the program of `rank` in a world of `world` ranks under the deck's schedule and stage.
/// Pure. Throws SizeError (counts beyond 63 bits), and DeckError if `rank` is not in the world, or
/// if batch sizes or groups do not fit its size. Another extent than the whole takes a small part
/// of the work.
Program build_program(const Deck& deck, const Batch& batch, int world, int rank,
                      const Profile& profile, Extent extent = Extent::whole);

struct TransformerDims;
/// The sizes of a micro-batch of the program's model on its rank, which is no list
/// (core/plan/model/transformer_sizes.hpp).
TransformerDims transformer_dims(const Program& program);

}  // namespace shardmark
