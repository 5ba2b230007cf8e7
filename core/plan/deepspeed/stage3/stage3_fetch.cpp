// SPDX-License-Identifier: Apache-2.0
// How parameters of DeepSpeed's stage 3 become whole and are dropped again. A parameter is gathered
// alone, together with others, or by a sum, and from the world's shards or from secondary copies;
// shards may lie on the device, on the host or in files.
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage3/stage3_params.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

int ShardedParams::secondary_slot(int id) {
  return c_.declare_once(secondary_slots_[id], "secondary." + c_.name(id), Category::param,
                         c_.precision.model, share(id, secondary_), recorded::secondary_partitions);
}

Operand ShardedParams::own_share(int id, const Sharers& of) const {
  return of.group == secondary_.group ? w_.read(secondary_slots_[id]) : own_shard(id, true, false);
}

// The secondary copy is cut like the shards, but over the block. Its padding is zero.
void ShardedParams::keep_secondary(int id) {
  if (secondary_.group == no_group || has_secondary(id)) return;
  const int slot = secondary_slot(id);
  const std::int64_t size = share(id, secondary_), first = size * secondary_.rank;
  const std::int64_t real = std::clamp<std::int64_t>(c_.elems(id) - first, 0, size);
  acquire_zeroed(w_, slot);
  Operand from = state_.where[id];
  from.offset += first;
  from.elems = real;
  if (real > 0) w_.convert(w_.write(slot, 0, real), from);
  state_.secondary.insert(id);
}

void ShardedParams::note_copies() {
  for (int id : state_.secondary) {
    const std::int64_t size = share(id, secondary_), first = size * secondary_.rank;
    const std::int64_t real = std::clamp<std::int64_t>(c_.elems(id) - first, 0, size);
    if (real > 0)
      p_.copies.push_back(
          {State::param, secondary_slots_[id], 0, p_.model.params[id].first_elem + first, real});
  }
}

void ShardedParams::drop_secondary() {
  std::erase_if(state_.secondary, [&](int id) {
    if (!c_.param(id).updated()) return false;  // its values have not changed
    w_.release(secondary_slots_[id]);
    return true;
  });
}

int ShardedParams::gathered_slot(int id) {
  return c_.declare_once(gathered_[id], "gathered." + c_.name(id), Category::gathered,
                         c_.precision.model, whole(id), recorded::params);
}

// Puts this rank's shard into its place among the others. A shard on the host is copied there
// directly, whereas DeepSpeed has a copy on the device in between.
void ShardedParams::shard_into(Operand place, int id) {
  param_swapper_.bring_in(id, state_.buffered);
  const Operand own = own_shard(id, true, false);
  if (!on_host()) {
    w_.convert(w_.write(place), own);
  } else if (w_[place.slot].dtype == c_.precision.model) {
    w_.copy(own, place);
  } else {
    const int here = passing_slot("upload." + c_.name(id), c_.precision.model, shard(id));
    w_.acquire(here);
    w_.copy(own, w_.write(here));
    w_.convert(w_.write(place), w_.read(here));
    w_.release(here);
  }
}

void ShardedParams::bring_up(int id) {
  const int slot = gathered_slot(id);
  w_.acquire(slot);
  shard_into(w_.write(slot), id);
  state_.where[id] = w_.read(slot, 0, c_.elems(id));
}

// Gathers straight into the parameter's own buffer.
void ShardedParams::gather_alone(int id, const Sharers& of) {
  const int slot = gathered_slot(id);
  w_.acquire(slot);
  const bool brought = of.group != secondary_.group && on_host();
  const Operand own = brought ? w_.read(slot, first(id), shard(id)) : own_share(id, of);
  if (brought) shard_into(own, id);
  collectives_.issue(Op::all_gather, Reduction::none, own, w_.write(slot), {id}, -1, of.group);
  state_.where[id] = w_.read(slot, 0, c_.elems(id));
}

void ShardedParams::read_ahead(const std::vector<int>& list) {
  for (int id : list) param_swapper_.bring_in(id, state_.buffered);
}

void ShardedParams::fetch(const std::vector<int>& list) {
  read_ahead(list);
  for (const std::vector<int>& part : by_holders(list)) gather_list(part);
  for (int id : list)  // a parameter that stays gathered gives its buffer back
    if (state_.coordinator.persists(id)) state_.buffered.erase(id);
}

// What fewer ranks hold takes a gather of its own.
std::vector<std::vector<int>> ShardedParams::by_holders(const std::vector<int>& list) const {
  EnumArray<Holders, std::vector<int>> of{};
  for (int id : list) of[c_.param(id).holders].push_back(id);
  std::vector<std::vector<int>> parts;
  for (const Holders h : all_values<Holders>)
    if (!of[h].empty()) parts.push_back(std::move(of[h]));
  return parts;
}

void ShardedParams::gather_list(const std::vector<int>& list) {
  if (ranks(list[0]) == 1) {  // the shard is the parameter
    for (int id : list) {
      if (on_host()) {
        bring_up(id);
        continue;
      }
      state_.where[id] = own_shard(id, true, false);
      state_.where[id].elems = c_.elems(id);
    }
    return;
  }
  if (list.size() == 1 || c_.knobs.allgather_sequential) {
    for (int id : list)
      if (quantizes())
        gather_quantized(id, sharers(id));
      else if (lowers(id))
        gather_lowered(id, sharers(id));
      else
        gather_alone(id, sharers(id));
    return;
  }
  if (by_sum(list[0])) return fetch_by_sum(list);
  for (const std::vector<int>& part : by_type(list)) fetch_together(part);
}

// Parameters that torch_autocast gathers in different types take one gather for each type.
std::vector<std::vector<int>> ShardedParams::by_type(const std::vector<int>& list) const {
  if (!c_.autocasts()) return {list};
  std::vector<int> low, rest;
  for (int id : list) (lowers(id) ? low : rest).push_back(id);
  std::vector<std::vector<int>> parts;
  for (std::vector<int>* part : {&low, &rest})
    if (!part->empty()) parts.push_back(std::move(*part));
  return parts;
}

int ShardedParams::lowered_slot(int id) {
  return passing_slot("lowered." + c_.name(id), c_.gathered_as(id), whole(id));
}

int ShardedParams::lowered_share(int id, const Sharers& of) {
  return passing_slot(fmt::format("lowered_share.{}.of{}", c_.name(id), of.ranks),
                      c_.gathered_as(id), share(id, of));
}

// Gathers a parameter in torch_autocast's type; what arrives is converted back.
void ShardedParams::gather_lowered(int id, const Sharers& of) {
  const int buffer = lowered_slot(id), own = lowered_share(id, of);
  w_.acquire(buffer);
  w_.acquire(own);
  join_shares(own, 0, {id}, of);
  collectives_.issue(Op::all_gather, Reduction::none, w_.read(own), w_.write(buffer), {id}, -1,
                     of.group);
}

void ShardedParams::restore_lowered(int id) {
  const int slot = gathered_slot(id), buffer = lowered_slot(id);
  w_.acquire(slot);
  state_.where[id] = w_.read(slot, 0, c_.elems(id));
  w_.convert(w_.write(slot, 0, c_.elems(id)), w_.read(buffer, 0, c_.elems(id)));
  w_.release(buffer);
  w_.release(lowered_share(id, sharers(id)));
}

int ShardedParams::flat_slot(const std::vector<int>& list) {
  std::int64_t sum = 0;
  for (int id : list) sum = checked_add(sum, whole(id), "gathered parameters");
  const auto [it, fresh] = flat_of_.try_emplace(list, no_slot);
  const Dtype dtype = quantizes()       ? Dtype::fp16
                      : by_sum(list[0]) ? c_.precision.model
                                        : c_.gathered_as(list[0]);
  return c_.declare_once(it->second, fmt::format("fetch.{}", flat_of_.size()), Category::gathered,
                         dtype, sum, recorded::params);
}

void ShardedParams::fetch_together(const std::vector<int>& list) {
  const int flat = flat_slot(list);
  const Sharers of = sharers(list[0]);
  if (quantizes()) return gather_quantized(flat, list, of);
  const std::int64_t row = w_[flat].elems / of.ranks;
  w_.acquire(flat);
  join_shares(flat, row * of.rank, list, of);
  collectives_.issue(Op::all_gather, Reduction::none, w_.read(flat, row * of.rank, row),
                     w_.write(flat), list, -1, of.group);
}

// Puts this rank's shares of the parameters one after another into `slot` from `at` on.
void ShardedParams::join_shares(int slot, std::int64_t at, const std::vector<int>& list,
                                const Sharers& of) {
  for (int id : list) {
    const Operand place = w_.write(slot, at, share(id, of));
    if (has_secondary(id))
      w_.convert(place, own_share(id, of));
    else
      shard_into(place, id);
    at += share(id, of);
  }
}

int ShardedParams::passing_slot(const std::string& name, Dtype dtype, std::int64_t elems) {
  const auto [it, fresh] = on_way_.try_emplace(name, no_slot);
  return c_.declare_once(it->second, name, Category::gathered, dtype, elems);
}

void ShardedParams::gather_quantized(int id, const Sharers& of) {
  const std::string& name = c_.name(id);
  if (of.group == secondary_.group || !on_host())
    return quantized_.start(name, own_share(id, of), {id}, of.group, of.ranks);
  const int shard_here = passing_slot("upload." + name, c_.precision.model, shard(id));
  w_.acquire(shard_here);
  shard_into(w_.write(shard_here), id);
  quantized_.start(name, w_.read(shard_here), {id}, of.group, of.ranks);
  w_.release(shard_here);
}

void ShardedParams::gather_quantized(int flat, const std::vector<int>& list, const Sharers& of) {
  const std::string name = w_[flat].name;  // a copy, since slots are added
  const std::int64_t row = w_[flat].elems / of.ranks;
  const int joined =
      passing_slot(fmt::format("joined.{}.of{}", name, of.ranks), c_.precision.model, row);
  w_.acquire(joined);
  join_shares(joined, 0, list, of);
  quantized_.start(name, w_.read(joined), list, of.group, of.ranks);
  w_.release(joined);
}

// Makes a parameter whole: `fill` writes it in the type in which it came, which is fp16 if
// DeepSpeed's quantizer restored it.
template<class Fill>
void ShardedParams::settle(int id, Fill fill) {
  const int slot = gathered_slot(id);
  const Dtype came = quantizes() ? Dtype::fp16 : c_.gathered_as(id);
  if (came == c_.precision.model) {
    w_.acquire(slot);
    fill(slot);
  } else {
    const int half = passing_slot("restored." + c_.name(id), came, whole(id));
    w_.acquire(half);
    fill(half);
    w_.acquire(slot);
    w_.convert(w_.write(slot), w_.read(half));
    w_.release(half);
  }
  state_.where[id] = w_.read(slot, 0, c_.elems(id));
}

// Each rank sets its shards in a copy of zeros; the sum of the copies over ranks is the parameters.
void ShardedParams::fetch_by_sum(const std::vector<int>& list) {
  const int flat = flat_slot(list);
  acquire_zeroed(w_, flat);
  std::int64_t at = 0;
  for (int id : list) {
    shard_into(w_.write(flat, at + first(id), shard(id)), id);
    state_.where[id] = w_.read(flat, at, c_.elems(id));
    at += whole(id);
  }
  collectives_.issue(Op::all_reduce, Reduction::sum, w_.read(flat), w_.write(flat), {});
  state_.users[flat] = static_cast<int>(list.size());
}

void ShardedParams::arrive(const std::vector<int>& list) {
  for (const std::vector<int>& part : by_holders(list)) arrive_list(part);
}

void ShardedParams::arrive_list(const std::vector<int>& list) {
  if (ranks(list[0]) == 1) return;
  if (list.size() == 1 || c_.knobs.allgather_sequential) {
    for (int id : list)
      if (quantizes())
        settle(id, [&](int slot) { quantized_.finish(c_.name(id), sharers(id).ranks, slot); });
      else if (lowers(id))
        restore_lowered(id);
    return;
  }
  if (by_sum(list[0])) return;
  for (const std::vector<int>& part : by_type(list)) arrive_together(part);
}

void ShardedParams::arrive_together(const std::vector<int>& list) {
  const int flat = flat_slot(list);
  const Sharers of = sharers(list[0]);
  const std::int64_t row = w_[flat].elems / of.ranks;
  if (quantizes()) {
    w_.acquire(flat);
    quantized_.finish(w_[flat].name, of.ranks, flat);
  }
  std::int64_t at = 0;
  for (int id : list) {
    const std::int64_t last = row * (of.ranks - 1) + share(id, of);
    settle(id, [&](int slot) {
      w_.compute(Kernel::rearrange, {w_.write(slot), w_.read(flat, at, last)}).group = of.group;
    });
    at += share(id, of);
  }
  w_.release(flat);
}

void ShardedParams::release(int id) {
  keep_secondary(id);
  if (ranks(id) > 1 || on_host() || state_.copied.contains(id)) drop(id);
}

void ShardedParams::copy_whole(int id) {
  gather_alone(id);
  if (ranks(id) == 1 && !on_host()) state_.copied.insert(id);
}

void ShardedParams::drop(int id) {
  state_.buffered.erase(id);
  state_.copied.erase(id);
  const int slot = state_.where[id].slot;
  if (auto users = state_.users.find(slot); users != state_.users.end()) {
    if (--users->second > 0) return;
    state_.users.erase(users);
  }
  w_.release(slot);
}

// DeepSpeed checks that all ranks have recorded the same: first the length, then the list.
void ShardedParams::compare_lists(std::int64_t count) {
  for (std::int64_t n : {std::int64_t{1}, count})
    write_integers(w_, p_, fmt::format("trace.{}", traces_++), Dtype::int64, Op::broadcast, n);
}

}  // namespace shardmark
