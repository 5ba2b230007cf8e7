// SPDX-License-Identifier: Apache-2.0
// How parameters of DeepSpeed's stage 3 become whole, and are dropped again: alone, together in one
// gather, or as a sum; from the world's shards, from secondary copies, from the host, from files.
#include <fmt/format.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage3/stage3_params.hpp>

namespace shardmark {

int ShardedParams::secondary_slot(int id) {
  return lazily(secondary_slots_[id], "secondary." + name(id), Category::param, precision_.model,
                share(id, secondary_), recorded::secondary_partitions);
}

Operand ShardedParams::own_share(int id, const Sharers& of) const {
  return of.group == secondary_.group ? w_.read(secondary_slots_[id]) : own_shard(id, true, false);
}

// Cut like the shards, but over the block: padding is zero.
void ShardedParams::keep_secondary(int id) {
  if (secondary_.group == no_group || has_secondary(id)) return;
  const int slot = secondary_slot(id);
  const std::int64_t size = share(id, secondary_), first = size * secondary_.rank;
  const std::int64_t real = std::clamp<std::int64_t>(elems(id) - first, 0, size);
  acquire_zeroed(w_, slot);
  Operand from = stand_.where[id];
  from.offset += first;
  from.elems = real;
  if (real > 0) w_.compute(Kernel::convert, {write_part(slot, 0, real), from});
  stand_.secondary.insert(id);
}

void ShardedParams::note_copies() {
  for (int id : stand_.secondary) {
    const std::int64_t size = share(id, secondary_), first = size * secondary_.rank;
    const std::int64_t real = std::clamp<std::int64_t>(elems(id) - first, 0, size);
    if (real > 0)
      p_.copies.push_back(
          {State::param, secondary_slots_[id], 0, p_.model.params[id].first_elem + first, real});
  }
}

void ShardedParams::drop_secondary() {
  for (int id : stand_.secondary) w_.release(secondary_slots_[id]);
  stand_.secondary.clear();
}

int ShardedParams::gathered_slot(int id) {
  return lazily(gathered_[id], "gathered." + name(id), Category::gathered, precision_.model,
                whole(id), recorded::params);
}

// This rank's shard at its place among the others. From the host it goes there directly, where
// DeepSpeed has a copy of it on the device in between.
void ShardedParams::shard_into(Operand place, int id) {
  place.reads = false, place.writes = true;
  param_swapper_.bring_in(id, stand_.buffered);
  if (params_on_host())
    w_.copy(own_shard(id, true, false), place);
  else
    w_.compute(Kernel::convert, {place, own_shard(id, true, false)});
}

void ShardedParams::bring_up(int id) {
  const int slot = gathered_slot(id);
  w_.acquire(slot);
  shard_into(w_.write(slot), id);
  stand_.where[id] = read_part(slot, 0, elems(id));
}

// Straight into the parameter's own buffer.
void ShardedParams::gather_alone(int id, const Sharers& of) {
  const int slot = gathered_slot(id);
  w_.acquire(slot);
  const bool brought = &of == &primary_ && params_on_host();
  const Operand own = brought ? read_part(slot, shard(id) * p_.rank, shard(id)) : own_share(id, of);
  if (brought) shard_into(own, id);
  collective(Op::all_gather, Reduction::none, own, w_.write(slot), {id}, -1, of.group);
  stand_.where[id] = read_part(slot, 0, elems(id));
}

void ShardedParams::read_ahead(const std::vector<int>& list) {
  for (int id : list) param_swapper_.bring_in(id, stand_.buffered);
}

void ShardedParams::fetch(const std::vector<int>& list) {
  read_ahead(list);
  gather_list(list);
  for (int id : list)  // what stays gathered leaves its buffer
    if (stand_.coordinator.persists(id)) stand_.buffered.erase(id);
}

void ShardedParams::gather_list(const std::vector<int>& list) {
  if (world() == 1) {  // the shard is the parameter
    for (int id : list) {
      if (params_on_host()) {
        bring_up(id);
        continue;
      }
      stand_.where[id] = own_shard(id, true, false);
      stand_.where[id].elems = elems(id);
    }
    return;
  }
  if (list.size() == 1 || knobs_.allgather_sequential) {
    for (int id : list) gather_alone(id, sharers(id));
    return;
  }
  if (by_sum(list[0]))
    fetch_by_sum(list);
  else
    fetch_together(list);
}

int ShardedParams::flat_slot(const std::vector<int>& list) {
  std::int64_t sum = 0;
  for (int id : list) sum = checked_add(sum, whole(id), "gathered parameters");
  const auto [it, fresh] = flat_of_.try_emplace(list, no_slot);
  return lazily(it->second, fmt::format("fetch.{}", flat_of_.size()), Category::gathered,
                precision_.model, sum, recorded::params);
}

void ShardedParams::fetch_together(const std::vector<int>& list) {
  const int flat = flat_slot(list);
  const Sharers of = sharers(list[0]);
  const std::int64_t row = w_[flat].elems / of.ranks;
  w_.acquire(flat);
  std::int64_t at = row * of.rank;
  for (int id : list) {
    const Operand place = write_part(flat, at, share(id, of));
    if (has_secondary(id))
      w_.compute(Kernel::convert, {place, own_share(id, of)});
    else
      shard_into(place, id);
    at += share(id, of);
  }
  collective(Op::all_gather, Reduction::none, read_part(flat, row * of.rank, row), w_.write(flat),
             list, -1, of.group);
}

// A zero-filled copy in which each rank sets its shards: the sum over ranks is the parameters.
void ShardedParams::fetch_by_sum(const std::vector<int>& list) {
  const int flat = flat_slot(list);
  acquire_zeroed(w_, flat);
  std::int64_t at = 0;
  for (int id : list) {
    shard_into(write_part(flat, at + shard(id) * p_.rank, shard(id)), id);
    stand_.where[id] = read_part(flat, at, elems(id));
    at += whole(id);
  }
  collective(Op::all_reduce, Reduction::sum, w_.read(flat), w_.write(flat), {});
  stand_.users[flat] = static_cast<int>(list.size());
}

void ShardedParams::arrive(const std::vector<int>& list) {
  if (world() == 1 || list.size() == 1 || knobs_.allgather_sequential || by_sum(list[0])) return;
  const int flat = flat_slot(list);
  const Sharers of = sharers(list[0]);
  const std::int64_t row = w_[flat].elems / of.ranks;
  std::int64_t at = 0;
  for (int id : list) {
    const int slot = gathered_slot(id);
    w_.acquire(slot);
    w_.compute(Kernel::rearrange,
               {w_.write(slot), read_part(flat, at, row * (of.ranks - 1) + share(id, of))})
        .group = of.group;
    stand_.where[id] = read_part(slot, 0, elems(id));
    at += share(id, of);
  }
  w_.release(flat);
}

void ShardedParams::release(int id) {
  keep_secondary(id);
  if (world() > 1 || params_on_host()) drop(id);
}

void ShardedParams::drop(int id) {
  stand_.buffered.erase(id);
  const int slot = stand_.where[id].slot;
  if (auto users = stand_.users.find(slot); users != stand_.users.end()) {
    if (--users->second > 0) return;
    stand_.users.erase(users);
  }
  w_.release(slot);
}

// DeepSpeed makes sure that all ranks have recorded the same: a length, then the list.
void ShardedParams::compare_lists(std::int64_t count) {
  for (std::int64_t n : {std::int64_t{1}, count}) {
    const int slot =
        w_.slot(fmt::format("trace.{}", traces_++), Category::workspace, Dtype::int64, n);
    acquire_zeroed(w_, slot);
    const std::vector<Operand> operands{w_.read(slot), w_.write(slot)};
    w_.collective(Op::broadcast, Reduction::none, Dtype::int64, n, operands, {}, 0, 0);
    w_.release(slot);
  }
}

std::vector<Operand> ShardedParams::module_params(int module) const {
  std::vector<Operand> operands;
  for (int id : p_.model.params_of(module)) operands.push_back(stand_.where[id]);
  return operands;
}

}  // namespace shardmark
