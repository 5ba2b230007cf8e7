// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iterator>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/interpret/owned_elements.hpp>

namespace shardmark {
namespace {

// Of the elements of one kind that a rank holds, those that it writes: `copies` ranks hold them.
struct Share {
  std::int64_t copies = 1, copy = 0, held = 0;
  std::int64_t from = 0, to = 0;
  std::int64_t at = 0;  // how many elements were gone through

  void deal() {
    // The first copies write one element more. A product of sizes could exceed 63 bits.
    const std::int64_t each = held / copies, more = held % copies;
    from = each * copy + std::min(more, copy);
    to = from + each + (copy < more ? 1 : 0);
  }
};

const Param& param_of(const ModelShape& model, std::int64_t first_elem) {
  return *std::prev(std::ranges::upper_bound(model.params, first_elem, {}, &Param::first_elem));
}

}  // namespace

std::vector<ElementRange> owned_elements(const Program& program) {
  // By which other ranks hold the same elements: those of parameters that each rank of a divided
  // layer has, of slices, and of experts.
  enum Kind { replicated, cut, of_experts, kinds };
  const Mesh& mesh = program.mesh;
  const auto kind_of = [&](const StatePiece& piece) {
    if (mesh.tensor_ranks() == 1 && mesh.expert_ranks() == 1) return cut;
    const Param& p = param_of(program.model, piece.first_elem);
    return p.holders == Holders::of_experts ? of_experts : p.slice.cuts() ? cut : replicated;
  };
  const bool sharded = program.sharded[State::master];
  std::array<Share, kinds> shares;
  const auto place = [&](Kind kind, Holders holders, std::int64_t shard_ranks) {
    const std::int64_t together = sharded ? shard_ranks : 1;  // ranks that hold one copy
    shares[kind].copies = mesh.ranks_of(holders) / together;
    shares[kind].copy = mesh.place_in(holders) / together;
  };
  place(replicated, Holders::all, program.shard_ranks);
  place(cut, Holders::all, program.shard_ranks);
  place(of_experts, Holders::of_experts, mesh.ranks_of(Holders::of_experts));
  const bool even = divides_evenly(program.model.spec);
  if (even) {
    shares[replicated].copy = shares[replicated].copy * mesh.tensor_ranks() + mesh.tensor_rank();
    shares[replicated].copies *= mesh.tensor_ranks();
  }
  for (const StatePiece& p : program.states)
    if (p.state == State::master) shares[kind_of(p)].held += p.elems;
  for (Share& s : shares) s.deal();
  // Shards of parts of different sizes begin at different elements: then the ranks that have the
  // first parts own what all have.
  if (!even && mesh.tensor_rank() > 0) shares[replicated].from = shares[replicated].to = 0;
  std::vector<ElementRange> ranges;
  for (const StatePiece& p : program.states) {
    if (p.state != State::master) continue;
    Share& share = shares[kind_of(p)];
    const std::int64_t begin = std::max(share.from - share.at, std::int64_t{0});
    const std::int64_t elems = std::min(share.to - share.at, p.elems) - begin;
    share.at += p.elems;
    if (elems <= 0) continue;
    const std::int64_t first = p.first_elem + begin;
    if (!ranges.empty() && ranges.back().first + ranges.back().elems == first)
      ranges.back().elems += elems;
    else
      ranges.push_back({first, elems});
  }
  return ranges;
}

std::vector<State> stored_states(Dtype model, Optimizer optimizer) {
  std::vector<State> states(all_values<State>.begin(), all_values<State>.end());
  std::erase_if(states, [&](State s) { return !stores_state(model, optimizer, s); });
  return states;
}

bool stores_state(Dtype model, Optimizer optimizer, State state) {
  if (state == State::param) return model != Dtype::fp32;
  return state == State::master || has_moment(optimizer, state);
}

std::string checkpoint_slot(State state) {
  return "checkpoint." + std::string(to_string(state));
}

void add_checkpoint_staging(Program& program) {
  std::int64_t elems = 0;
  for (const ElementRange& r : owned_elements(program)) elems += r.elems;
  for (State state : stored_states(program.precision.model, program.optimizer)) {
    const auto id = static_cast<std::int32_t>(program.slots.size());
    Slot slot;
    slot.name = checkpoint_slot(state);
    slot.tier = Tier::host;
    slot.category = Category::staging;
    slot.dtype = state == State::param ? program.precision.model : Dtype::fp32;
    slot.elems = elems;
    program.slots.push_back(slot);
    Event acquire;
    acquire.op = Op::acquire;
    acquire.tier = slot.tier, acquire.category = slot.category, acquire.dtype = slot.dtype;
    acquire.slot = id;
    acquire.elems = elems;
    program.segments[0].events.push_back(acquire);
    for (Segment& s : program.segments) {
      if (s.kind != SegmentKind::init) s.entry.alive.push_back(id);
      s.exit.alive.push_back(id);
    }
  }
}

}  // namespace shardmark
