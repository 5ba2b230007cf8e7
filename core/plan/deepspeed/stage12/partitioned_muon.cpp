// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <core/plan/deepspeed/stage12/partitioned_muon.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void PartitionedMuon::init() {
  std::vector<int> matrices;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!states_.has_matrices(g)) continue;
    const FlatGroup& group = states_.groups()[g];
    for (const int id : group.params)
      if (states_.owns(id)) matrices.push_back(id);
    const int momentum = groups_[g].momentum =
        w_.slot("momentum" + states_.suffix(g), Category::momentum, Dtype::fp32, group.partition);
    place_state(c_.program, State::momentum, momentum, 0, group.layout, states_.own_first(g),
                group.partition);
    acquire_zeroed(w_, momentum);
    find_parts(g);
  }
  orthogonalizer_.declare(matrices);
}

// Partitions follow each other, so two ranks share at most one matrix, and what a rank sends to
// another one is its slice of that matrix.
void PartitionedMuon::find_parts(std::size_t g) {
  Group& group = groups_[g];
  const auto world = static_cast<std::size_t>(c_.world());
  group.to.assign(world, 0), group.from.assign(world, 0);
  for (const int id : states_.groups()[g].params) {
    const std::vector<OwnedSlice> owners = states_.flat().owners(id);
    if (owners.size() < 2) continue;
    for (const OwnedSlice& slice : owners) {
      group.largest_part = std::max(group.largest_part, slice.elems);
      if (!states_.owns(id) || slice.rank == c_.program.rank) continue;
      group.to[static_cast<std::size_t>(slice.rank)] += states_.owned(id).elems;
      group.from[static_cast<std::size_t>(slice.rank)] += slice.elems;
    }
  }
  if (group.largest_part == 0) return;
  const auto buffer = [&](const char* name, const std::vector<std::int64_t>& counts) {
    return w_.slot(name + states_.suffix(g), Category::bucket, Dtype::fp32,
                   std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  };
  group.sent = buffer("muon_sent", group.to);
  group.received = buffer("muon_received", group.from);
}

void PartitionedMuon::exchange(std::size_t g) {
  const Group& group = groups_[g];
  for (const int slot : {group.received, group.sent}) w_.acquire(slot);
  std::int64_t end = 0;
  for (int rank = 0; rank < c_.world(); ++rank) {
    if (group.to[static_cast<std::size_t>(rank)] == 0) continue;
    for (const int id : states_.groups()[g].params) {
      const std::vector<OwnedSlice> owners = states_.flat().owners(id);
      const bool theirs = std::any_of(owners.begin(), owners.end(),
                                      [&](const OwnedSlice& s) { return s.rank == rank; });
      if (!theirs || !states_.owns(id)) continue;
      const std::int64_t elems = states_.owned(id).elems;
      c_.convert(c_.write_part(group.sent, end, elems),
                 c_.read_part(group.momentum, at(g, id), elems));
      end += elems;
    }
  }
  w_.exchange(w_.read(group.sent), w_.write(group.received), group.to, group.from,
              group.largest_part, states_.groups()[g].params);
  w_.release(group.sent);
}

void PartitionedMuon::make_updates(std::size_t g, int grads) {
  if (!states_.has_matrices(g)) return;
  const bool exchanges = groups_[g].largest_part > 0;
  if (exchanges) exchange(g);
  orthogonalizer_.acquire();
  for (const int id : states_.groups()[g].params)
    if (states_.owns(id)) update(g, id, grads);
  orthogonalizer_.release();
  if (exchanges) w_.release(groups_[g].received);
}

void PartitionedMuon::assemble(std::size_t g, int id, int whole) {
  const Group& group = groups_[g];
  const OwnedSlice own = states_.owned(id);
  c_.convert(c_.write_part(whole, own.first, own.elems),
             c_.read_part(group.momentum, at(g, id), own.elems));
  for (const OwnedSlice& slice : states_.flat().owners(id)) {
    if (slice.rank == c_.program.rank) continue;
    const auto begin = group.from.begin();
    c_.convert(
        c_.write_part(whole, slice.first, slice.elems),
        c_.read_part(group.received, std::accumulate(begin, begin + slice.rank, std::int64_t{0}),
                     slice.elems));
  }
}

void PartitionedMuon::update(std::size_t g, int id, int grads) {
  const std::int64_t elems = c_.elems(id), first = states_.flat().offset_of(id);
  const OwnedSlice own = states_.owned(id);
  const Operand own_momentum = c_.update_part(groups_[g].momentum, at(g, id), own.elems);
  const int momentum = shared(id) ? momenta_.slot(elems) : no_slot;
  if (momentum != no_slot) {
    w_.acquire(momentum);
    assemble(g, id, momentum);
  }
  const int grad = grads_.slot(elems);
  w_.acquire(grad);
  c_.convert(w_.write(grad), c_.read_part(grads, first, elems));
  scalars_.clip_gradient(w_.update(grad));
  orthogonalizer_.update(id, w_.update(grad),
                         momentum == no_slot ? own_momentum : w_.update(momentum));
  c_.convert(c_.write_part(grads, first + own.first, own.elems),
             c_.read_part(grad, own.first, own.elems));
  w_.release(grad);
  if (momentum == no_slot) return;
  c_.convert(c_.write_part(groups_[g].momentum, at(g, id), own.elems),
             c_.read_part(momentum, own.first, own.elems));
  w_.release(momentum);
}

}  // namespace shardmark
